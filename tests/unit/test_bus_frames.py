import asyncio
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import BadHeaderError, BadSubjectError, ProtocolError
from nats.protocol.parser import Parser

from threadbus.bus._nats.frames import (
    FrameParser,
    description,
    header,
    header_block,
    publish_frame,
    status,
)
from threadbus.bus.ports import Guard

HEADERS: Final = b"NATS/1.0\r\nNats-Sequence: 7\r\n\r\n"
KNOWN: Final = b"1"
Call = tuple[object, ...]


class Recorder:
    """Takes what a parser hands on; messages of subscription 1 directly, as the client does."""

    def __init__(self, *, direct: bool = True) -> None:
        self.calls: list[Call] = []
        self.direct = direct
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def take_frame(self, sid: bytes, subject: bytes, reply: bytes, body: bytes, raw: bytes) -> bool:
        if not self.direct or sid != KNOWN:
            return False
        self.calls.append((int(sid), subject, reply, body, raw))
        return True

    async def pass_on(
        self, sid: int, subject: bytes, reply: bytes, body: bytes, raw: bytes
    ) -> None:
        await self.may_go_on.wait()
        self.calls.append((sid, subject, reply, body, raw))

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        self.calls.append((sid, subject, reply, data, headers or b""))

    async def _process_ping(self) -> None:
        self.calls.append(("PING",))

    async def _process_pong(self) -> None:
        self.calls.append(("PONG",))

    async def _process_info(self, info: object) -> None:
        self.calls.append(("INFO", info))

    async def _process_err(self, text: str) -> None:
        self.calls.append(("-ERR", text))


def message(sid: int, body: bytes, reply: bytes = b"", raw: bytes = b"") -> bytes:
    """Return a message as a server sends it."""
    words = [b"HMSG" if raw else b"MSG", b"a.subject", b"%d" % sid]
    if reply:
        words.append(reply)
    if raw:
        words.append(b"%d" % len(raw))
    words.append(b"%d" % (len(raw) + len(body)))
    return b" ".join(words) + b"\r\n" + raw + body + b"\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at some places."""
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


async def calls_of(parser: Parser, recorder: Recorder, pieces: list[bytes]) -> list[Call]:
    """Let a parser parse pieces and return what it handed on."""
    for piece in pieces:
        await parser.parse(piece)
    return recorder.calls


BODIES = st.binary(max_size=40) | st.just(b"MSG a.subject 1 3\r\nabc\r\n") | st.just(b"\r\n")
MESSAGES = st.builds(
    message,
    st.sampled_from([1, 2]),
    BODIES,
    st.sampled_from([b"", b"_INBOX.x.1"]),
    st.sampled_from([b"", HEADERS]),
)
LINES = st.sampled_from(
    [
        b"PING\r\n",
        b"PONG\r\n",
        b"+OK\r\n",
        b'INFO {"server_name":"one"}\r\n',
        b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n",
    ]
)


@given(st.lists(MESSAGES | LINES, max_size=12), st.lists(st.integers(0, 2000), max_size=12))
def test_the_parser_says_what_that_of_nats_py_says(parts: list[bytes], places: list[int]) -> None:
    """However the bytes of a server are cut, both parsers hand on the same in the same order."""
    pieces = cut(b"".join(parts), places)

    async def both() -> tuple[list[Call], list[Call]]:
        ours, theirs = Recorder(), Recorder()
        return (
            await calls_of(FrameParser(ours), ours, pieces),
            await calls_of(Parser(theirs), theirs, pieces),  # pyright: ignore[reportUnknownMemberType]
        )

    ours, theirs = asyncio.run(both())
    assert ours == theirs


@given(st.lists(MESSAGES | LINES, max_size=12), st.lists(st.integers(0, 2000), max_size=12))
def test_the_order_stays_where_only_some_messages_take_the_short_way(
    parts: list[bytes], places: list[int]
) -> None:
    """A parser that stands before a reader hands everything on in order, direct or not."""
    data = b"".join(parts)

    async def through_reader() -> list[Call]:
        recorder = Recorder()
        parser = FrameParser(recorder)
        reader = asyncio.StreamReader()
        parser.attach(reader)
        for piece in cut(data, places):
            reader.feed_data(piece)
        reader.feed_eof()
        while piece := await reader.read(7):
            await parser.parse(piece)
        return recorder.calls

    async def expected() -> list[Call]:
        recorder = Recorder(direct=False)
        return await calls_of(FrameParser(recorder), recorder, [data])

    assert asyncio.run(through_reader()) == asyncio.run(expected())


async def test_a_message_does_not_overtake_one_that_is_being_handled() -> None:
    """While nats-py handles a message, those behind it wait."""
    recorder = Recorder()
    recorder.may_go_on.clear()
    parser = FrameParser(recorder)
    slow: list[bytes] = []

    parser.feed(message(2, b"first"), slow.append)
    parsing = asyncio.create_task(parser.parse(slow.pop()))
    parser.feed(message(1, b"second"), slow.append)
    assert recorder.calls == []
    recorder.may_go_on.set()
    await parsing
    await parser.parse(slow.pop())

    assert [call[3] for call in recorder.calls] == [b"first", b"second"]
    parser.feed(message(1, b"third"), slow.append)
    assert slow == []
    assert recorder.calls[-1][3] == b"third"


async def test_nothing_of_an_old_connection_is_left_after_a_reset() -> None:
    """What is half read is forgotten with its connection."""
    recorder = Recorder()
    parser = FrameParser(recorder)

    await parser.parse(message(1, b"cut off")[:-4])
    parser.reset()
    await parser.parse(message(1, b"whole"))

    assert [call[3] for call in recorder.calls] == [b"whole"]


@pytest.mark.parametrize(
    "line",
    [
        b"MSG a 1\r\n",
        b"MSG a x 3\r\nabc\r\n",
        b"MSG a 1 -3\r\nabc\r\n",
        b"MSG a 1 three\r\nabc\r\n",
        b"MSG a 1 b c d 3\r\nabc\r\n",
        b"HMSG a 1 9 3\r\nabc\r\n",
        b"HMSG a 1 -1 3\r\nabc\r\n",
        b"HELLO\r\n",
    ],
)
async def test_bytes_that_are_not_the_protocol_are_refused(line: bytes) -> None:
    """A line that means nothing ends the connection instead of being guessed at."""
    with pytest.raises(ProtocolError):
        await FrameParser(Recorder()).parse(line)


async def test_a_line_that_never_ends_is_refused() -> None:
    """More than a mebibyte without the end of a line is not the protocol."""
    parser = FrameParser(Recorder())
    await parser.parse(b"x" * 1024 * 1024)
    with pytest.raises(ProtocolError):
        await parser.parse(b"x")


def test_the_last_of_several_headers_counts() -> None:
    """What a publisher has put before the headers of the server says nothing."""
    raw = b"NATS/1.0\r\nNats-Sequence: 999\r\nNats-Sequence: 7\r\n\r\n"

    assert header(raw, b"Nats-Sequence") == b"7"
    assert header(raw, b"Sequence") is None


def test_a_status_is_only_in_the_first_line() -> None:
    """A status is what the server says in place of a message."""
    raw = b"NATS/1.0 404 No Messages\r\n\r\n"

    assert (status(raw), description(raw)) == (404, "No Messages")
    assert status(b"NATS/1.0\r\nStatus: 404\r\n\r\n") == 0
    assert status(b"NATS/1.0 x\r\n\r\n") == 0


def test_a_publish_has_its_sizes() -> None:
    """A publish says how many bytes its headers and all of it have."""
    assert publish_frame("a", "", b"", b"xyz") == b"PUB a  3\r\nxyz\r\n"
    assert publish_frame("a", "b", b"H\r\n\r\n", b"xyz") == b"HPUB a b 5 8\r\nH\r\n\r\nxyz\r\n"


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        ("", ""),
        ("a b", ""),
        ("a\r\nPUB b 0", ""),
        ("a\tb", ""),
        ("", "b"),
        ("a", "b c"),
        ("a", " "),
    ],
)
def test_white_space_in_a_subject_is_refused(subject: str, reply: str) -> None:
    """White space would be read as another part of the protocol."""
    with pytest.raises(BadSubjectError):
        publish_frame(subject, reply, b"", b"xyz")


def test_a_header_block_holds_the_id_the_guard_and_the_rest() -> None:
    """An append carries its id, its guard and whatever else is given."""
    block = header_block("id", Guard("bus.t.main.ctl.>", 12), {"traceparent": "00"})

    assert block == (
        b"NATS/1.0\r\nNats-Msg-Id: id\r\n"
        b"Nats-Expected-Last-Subject-Sequence: 12\r\n"
        b"Nats-Expected-Last-Subject-Sequence-Subject: bus.t.main.ctl.>\r\n"
        b"traceparent: 00\r\n\r\n"
    )


@pytest.mark.parametrize("value", ["a\r\nNats-Rollup: all", "a\nb", "a\rb"])
def test_a_header_cannot_start_another(value: str) -> None:
    """A line end in a value would be a header of its own."""
    with pytest.raises(BadHeaderError):
        header_block("id", None, {"traceparent": value})
