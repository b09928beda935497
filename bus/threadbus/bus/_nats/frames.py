"""The NATS protocol as far as it is busy: messages in, publishes out, and their headers.

nats-py wakes a task for each piece that arrives, parses it with seven regular expressions on a
buffer that it cuts after each match, and awaits twice for each message. Reading a long history
spends most of its time there, and so do the hops of a round trip. This parser takes ``MSG`` and
``HMSG`` in one pass over the bytes as they arrive and leaves everything else to nats-py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from nats.errors import BadHeaderError, BadSubjectError, ProtocolError
from nats.protocol.parser import Parser

from threadbus.bus.ports import Guard

FrameHandler: TypeAlias = Callable[[bytes, bytes, bytes, bytes], None]
"""Called with subject, reply subject, body and raw header (empty where there is none)."""

_END: Final = b"\r\n"
_WORDS: Final = {b"MSG": 4, b"HMSG": 5}
"""How many words announce a message that has no reply subject; one more where it has."""
_MAX_LINE_BYTES: Final = 1024 * 1024
_STATUS_AT: Final = len(b"NATS/1.0 ")


class FrameSink(Protocol):
    """Where messages go."""

    def take_frame(self, sid: bytes, subject: bytes, reply: bytes, body: bytes, raw: bytes) -> bool:
        """Take a message, or return False to have nats-py handle it."""
        ...

    async def pass_on(
        self, sid: int, subject: bytes, reply: bytes, body: bytes, raw: bytes
    ) -> None:
        """Have nats-py handle a message."""
        ...


class FrameParser(Parser):
    """Takes what the server sends apart.

    Messages that the sink takes are handed on at once, in the turn of the loop in which they
    arrive (:meth:`feed`). Anything else goes the way that nats-py has for it (:meth:`parse`), and
    whatever comes behind it waits until that is done, so that the order stays.
    """

    def __init__(self, sink: FrameSink) -> None:
        self._sink = sink
        self._turn = 0
        self._slow_bytes = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._wanted_bytes = 0
        super().__init__(sink)  # pyright: ignore[reportUnknownMemberType]

    def reset(self) -> None:
        """Forget what is half read: another connection follows."""
        super().reset()
        self._turn += 1
        self._slow_bytes = 0
        self._hold(b"", 0)

    def attach(self, reader: asyncio.StreamReader) -> None:
        """Stand before *reader*: it gets only what is left to :meth:`parse`."""
        slow = reader.feed_data
        self._slow_bytes = len(reader._buffer)  # type: ignore[attr-defined]  # pyright: ignore
        reader.feed_data = lambda data: self.feed(bytes(data), slow)  # type: ignore[method-assign]

    def feed(self, data: bytes, slow: Callable[[bytes], None]) -> None:
        """Hand on the messages in *data*, and to *slow* what is left for :meth:`parse`."""
        rest = data if self._slow_bytes else self._take(data)
        if rest:
            self._slow_bytes += len(rest)
            slow(rest)

    async def parse(self, data: bytes = b"") -> None:
        """Take in the next bytes and hand on what they complete.

        Raises:
            nats.errors.ProtocolError: they are not the NATS protocol.
        """
        turn = self._turn
        rest = self._take(data)
        while rest:
            rest = await self._handle_one(rest)
            if self._turn != turn:
                return
            rest = self._take(rest)
        self._slow_bytes = max(0, self._slow_bytes - len(data))

    def _hold(self, rest: bytes, wanted_bytes: int) -> None:
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)
        self._wanted_bytes = wanted_bytes

    def _take(self, data: bytes) -> bytes:
        """Hand on messages up to the first thing that nats-py must handle; return it and the rest.

        What is not complete is held until more comes.
        """
        if self._held:
            # A large message comes in many pieces: they are joined once, when the last is there.
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._wanted_bytes:
                return b""
            data = b"".join(self._held)
            self._hold(b"", 0)
        take = self._sink.take_frame
        at = wanted = 0
        size = len(data)
        while at < size:
            end = data.find(_END, at)
            if end < 0:
                if size - at > _MAX_LINE_BYTES:
                    return data[at:]
                break
            words = data[at:end].split()
            usual = _WORDS.get(words[0]) if words else None
            if usual is None or not usual <= len(words) <= usual + 1:
                return data[at:]
            start = end + 2
            try:
                stop = start + int(words[-1])
                middle = start + int(words[-2]) if usual == _WORDS[b"HMSG"] else start
            except ValueError:
                return data[at:]
            if not start <= middle <= stop:
                return data[at:]
            if size < stop + 2:
                wanted = stop + 2 - at
                break
            reply = words[3] if len(words) > usual else b""
            if not take(words[2], words[1], reply, data[middle:stop], data[start:middle]):
                return data[at:]
            at = stop + 2
        if at < size:
            self._hold(data[at:], wanted)
        return b""

    async def _handle_one(self, data: bytes) -> bytes:
        """Have nats-py handle the line or message that *data* starts with; return the rest."""
        end = data.find(_END) + 2
        if end < 2:
            raise ProtocolError
        line = data[:end]
        words = line.split()
        usual = _WORDS.get(words[0]) if words else None
        if usual is None:
            await super().parse(line)
            return data[end:]
        if not usual <= len(words) <= usual + 1:
            raise ProtocolError
        try:
            sid = int(words[2])
            stop = end + int(words[-1])
            middle = end + int(words[-2]) if usual == _WORDS[b"HMSG"] else end
        except ValueError:
            raise ProtocolError from None
        if not end <= middle <= stop:
            raise ProtocolError
        reply = words[3] if len(words) > usual else b""
        await self._sink.pass_on(sid, words[1], reply, data[middle:stop], data[end:middle])
        return data[stop + 2 :]


def publish_frame(subject: str, reply: str, head: bytes, body: bytes) -> bytes:
    """Build the bytes of a publish; *head* is a whole header block or empty.

    Raises:
        BadSubjectError: a subject is empty, or has white space, which the protocol would take for
            its own.
    """
    if head:
        line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n"
    else:
        line = f"PUB {subject} {reply} {len(body)}\r\n"
    if len(line.split()) != 3 + (1 if reply else 0) + (1 if head else 0):
        raise BadSubjectError
    return b"".join((line.encode(), head, body, _END))


def header_block(msg_id: str, guard: Guard | None, more: Mapping[str, str]) -> bytes:
    """Build the header block of an append.

    Raises:
        BadHeaderError: a value would start a line of its own.
    """
    lines = f"NATS/1.0\r\nNats-Msg-Id: {msg_id}\r\n"
    count = 3 + len(more)
    if guard is not None:
        lines += (
            f"Nats-Expected-Last-Subject-Sequence: {guard.last_seq}\r\n"
            f"Nats-Expected-Last-Subject-Sequence-Subject: {guard.subject}\r\n"
        )
        count += 2
        if guard.behind:
            lines += f"Nats-Expected-Last-Msg-Id: {guard.behind}\r\n"
            count += 1
    for name, value in more.items():
        lines += f"{name}: {value}\r\n"
    block = f"{lines}\r\n".encode()
    if block.count(b"\n") != count or block.count(b"\r") != count:
        raise BadHeaderError
    return block


def header(raw: bytes, name: bytes) -> bytes | None:
    """Return the value of one header of a raw block, or None.

    Of several of one name the last counts: what the server adds stands behind what the publisher
    sent, who might say anything.
    """
    start = raw.rfind(b"\r\n" + name + b": ")
    if start < 0:
        return None
    start += len(name) + 4
    return raw[start : raw.find(b"\r\n", start)]


def status(raw: bytes) -> int:
    """Return the status of a message that the server made, or 0 for an ordinary one."""
    if not raw.startswith(b"NATS/1.0 "):
        return 0
    code = raw[_STATUS_AT : _STATUS_AT + 3]
    return int(code) if code.isdigit() else 0


def description(raw: bytes) -> str:
    """Return what the server says beside a status."""
    return raw[_STATUS_AT + 4 : raw.find(b"\r\n")].decode("utf-8", "replace").strip()
