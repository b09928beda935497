"""The codec: what it carries unchanged, what it refuses, and what it says when it does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given

from tests.support.schema_strategies import events
from threadbus.schemas import (
    DATA_TYPES,
    MAIN_THREAD,
    MAX_EVENT_BYTES,
    MAX_JSON_DEPTH,
    AgentName,
    AnyData,
    DataPart,
    Event,
    EventClass,
    EventId,
    FilePart,
    InvalidIdError,
    InvalidNameError,
    InvalidSubjectError,
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    MessagePosted,
    NotJsonError,
    OpaqueData,
    SchemaError,
    SubjectMismatchError,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    decode_event,
    decode_recorded_event,
    encode_event,
    make_event,
)

TASK = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
EVENT = EventId("0199b2f04c107a31b2c3d4e5f6072a01")
WEB, PLANNER = AgentName("web"), AgentName("planner")
SUBJECT = f"bus.{TASK}.main.msg.web.planner"


def event(data: AnyData | None = None, **changes: Any) -> Event:
    """Make one that is right but for *changes*."""
    made = make_event(
        MessagePosted(parts=(TextPart("hi"),)) if data is None else data,
        task=TASK,
        thread=MAIN_THREAD,
        sender=WEB,
        mentions=(PLANNER,),
        event_id=EVENT,
        at=1,
    )
    return msgspec.structs.replace(made, **changes)


def message(value: object) -> Event:
    """Make a message with a data part."""
    return event(MessagePosted(parts=(DataPart(value),)))


def body(**changes: object) -> bytes:
    """Make the JSON of a message as another program may; an Ellipsis takes a field out."""
    fields: dict[str, object] = json.loads(encode_event(event()))
    fields.update(changes)
    return json.dumps({key: item for key, item in fields.items() if item is not ...}).encode()


@given(events())
def test_every_event_comes_back_as_it_was(sent: Event) -> None:
    """Encoding and decoding changes nothing, with and without its subject."""
    encoded = encode_event(sent)

    assert decode_event(encoded) == sent
    assert decode_recorded_event(sent.subject, encoded) == sent
    assert b"\n" not in encoded


def test_make_event_fills_in_the_rest() -> None:
    """Type, version, id and time come by themselves, and a repeated mention is said once."""
    made = make_event(
        MessagePosted(parts=()),
        task=TASK,
        thread=MAIN_THREAD,
        sender=WEB,
        mentions=(PLANNER, WEB, PLANNER),
    )

    assert (made.type, made.v, made.event_class) == ("message.posted", 1, EventClass.MSG)
    assert made.mentions == (PLANNER, WEB)
    assert decode_event(encode_event(made)) == made


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        2**63,
        2**64 + 1,
        -(2**63) - 1,
        10**300,
        -(10**4298),
        0.1,
        1e308,
        5e-324,
        -0.0,
        "a\u2028b\u2029c\u0085d\ufeff\U0010ffff\u0001\x7f",
        "\\u0000",
        "",
        None,
        {"": {"": []}},
        {"k\u00e9y\n": "\u202eright to left"},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_data_parts_are_exact(value: object) -> None:
    """Integers beyond 64 bits, odd floats and odd text come back to the bit."""
    (part,) = cast("MessagePosted", decode_event(encode_event(message(value))).data).parts

    assert repr(cast("DataPart", part).data) == repr(value)


def test_a_tuple_is_an_array() -> None:
    """A tuple in a data part arrives as a list, at any depth; nothing else is changed."""
    (part,) = cast(
        "MessagePosted", decode_event(encode_event(message({"a": (1, [(2,)])}))).data
    ).parts

    assert cast("DataPart", part).data == {"a": [1, [[2]]]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "data.parts[0].data is nan, which JSON cannot carry"),
        ({"x": [1, float("inf")]}, "data.parts[0].data.x[1] is inf"),
        ([-float("inf")], "data.parts[0].data[0] is -inf"),
        ({"a b": b"raw"}, "data.parts[0].data['a b'] is bytes"),
        (bytearray(b"raw"), "send them as a file part"),
        ({1: "one"}, "a key of message.posted.data.parts[0].data is 1 (int)"),
        ({"1": 0, 1: 0}, "is 1 (int)"),
        ({1.5: 0}, "is 1.5 (float)"),
        ({None: 0}, "is None (NoneType)"),
        ({b"k": 0}, "(bytes), which JSON cannot carry as it is: make it a string"),
        ({(1, 2): 0}, "(tuple)"),
        ({1, 2}, "of the type set"),
        (Decimal("1.1"), "of the type Decimal"),
        (datetime(2026, 1, 1, tzinfo=UTC), "of the type datetime"),
        (object(), "of the type object"),
        ([{"deep": [1, {"x": object()}]}], "data.parts[0].data[0].deep[1].x is of the type object"),
        (TextPart("x"), "of the type TextPart"),
    ],
    ids=lambda value: ascii(value)[:30].partition(" at 0x")[0],
)
def test_what_json_would_change_is_refused(value: object, words: str) -> None:
    """The error names the path and what to send instead; nothing is sent as something else."""
    with pytest.raises(NotJsonError) as caught:
        encode_event(message(value))

    assert words in str(caught.value)


def test_bytes_in_a_text_field_are_refused() -> None:
    """They would arrive as base64 text."""
    with pytest.raises(NotJsonError, match=r"task\.opened\.data\.title is bytes"):
        encode_event(event(TaskOpened(title=cast("str", b"abc"))))


@pytest.mark.parametrize(
    ("value", "path", "codepoint", "position"),
    [
        ("ab\0", "parts[0].data", 0, 2),
        ({"k": ["x", {"y": "\0"}]}, "parts[0].data.k[1].y", 0, 0),
        ({"a\0": 1}, "a key of", 0, 1),
        ("a\ud800", "message.posted.data.parts[0].data", 0xD800, 1),
        ({"k": ["\udfff"]}, "message.posted.data.parts[0].data.k[0]", 0xDFFF, 0),
        ({"a": 1, "b\udc80": 1}, "a key of message.posted.data.parts[0].data", 0xDC80, 1),
    ],
    ids=ascii,
)
def test_text_that_cannot_travel_is_refused(
    value: object, path: str, codepoint: int, position: int
) -> None:
    """NUL and lone surrogates, in values and keys at any depth, are named with their place."""
    with pytest.raises(InvalidTextError) as caught:
        encode_event(message(value))

    assert path in caught.value.what
    assert (caught.value.codepoint, caught.value.position) == (codepoint, position)
    assert f"U+{codepoint:04X}" in str(caught.value)


@pytest.mark.parametrize(
    ("escapes", "codepoint"),
    [
        (rb"\u0000", 0),
        (rb"\\\u0000", 0),
        (rb"\ud800", 0xD800),
        (rb"\uD83D x", 0xD83D),
        (rb"\udc00", 0xDC00),
        (rb"\ud83d\ude00\ude00", 0xDE00),
        (rb"\ud800\ud83d\ude00", 0xD800),
    ],
    ids=lambda value: ascii(value),
)
def test_escaped_text_that_cannot_travel_is_refused(escapes: bytes, codepoint: int) -> None:
    """What another program escaped is found as well, and a pair of surrogates is none."""
    with pytest.raises(InvalidTextError) as caught:
        decode_event(body(data=...)[:-1] + b',"data":{"parts":[],"x":"' + escapes + b'"}}')

    assert caught.value.codepoint == codepoint


@pytest.mark.parametrize(
    "harmless",
    [rb"\\u0000", rb"\\\\u0000", rb"\ud83d\ude00", rb"\\ud800", r"🚀".encode()],
    ids=ascii,
)
def test_text_that_only_looks_dangerous_is_kept(harmless: bytes) -> None:
    """An escaped backslash before ``u0000`` is plain text."""
    raw = b'{"kind":"text","text":"' + harmless + b'"}'

    decoded = decode_event(body(data=...)[:-1] + b',"data":{"parts":[' + raw + b"]}}")

    assert cast("MessagePosted", decoded.data).parts == (TextPart(json.loads(raw)["text"]),)


def test_depth_is_bounded_at_64() -> None:
    """Brackets in text do not count; the 65th level is refused with both numbers."""
    levels = MAX_JSON_DEPTH - 4
    value: object = "[[[[{{{{" * 100 + '"' + "\\"
    for _ in range(levels):
        value = [value]

    assert decode_event(encode_event(message(value))) == message(value)
    with pytest.raises(LimitExceededError, match="65 is over the limit of 64") as caught:
        encode_event(message([value]))
    assert (caught.value.value, caught.value.limit) == (65, 64)


def test_depth_without_end_is_refused() -> None:
    """A list that holds itself, and a flood of opening brackets, are errors and not a crash."""
    endless: list[object] = []
    endless.append(endless)

    for sent in (message(endless), message({"a": (endless,)})):
        with pytest.raises(LimitExceededError, match="levels of JSON"):
            encode_event(sent)
    for bracket in (b"[", b'{"a":', b'[{"a":"\\"",'):
        with pytest.raises(LimitExceededError, match="levels of JSON"):
            decode_event(bracket * 100_000)


def test_a_body_beyond_any_server_is_refused() -> None:
    """The size is named before anything is decoded."""
    with pytest.raises(LimitExceededError, match=r"67,108,865 is over the limit of 67,108,864"):
        decode_event(b" " * (MAX_EVENT_BYTES + 1))


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"v": 0}, MalformedEventError, "event.v is 0; it must be at least 1"),
        ({"v": -1}, MalformedEventError, "event.v is -1"),
        ({"v": 2**80}, LimitExceededError, "event.v"),
        ({"v": 1.0}, MalformedEventError, "`$.v`"),
        ({"v": True}, MalformedEventError, "`$.v`"),
        ({"v": ...}, MalformedEventError, "missing required field `v`"),
        ({"id": EVENT.upper()}, InvalidIdError, f"'{EVENT}' would do"),
        ({"id": "x"}, InvalidIdError, "event id 'x'"),
        ({"id": "0" * 32}, InvalidIdError, "not all zero"),
        ({"id": 5}, MalformedEventError, "`$.id`"),
        ({"task": TASK + "0"}, InvalidIdError, "super-task id"),
        ({"task": ...}, MalformedEventError, "missing required field `task`"),
        ({"thread": "a.b"}, InvalidNameError, "thread id 'a.b'"),
        ({"thread": ""}, InvalidNameError, "thread id ''"),
        ({"sender": "Web"}, InvalidNameError, "agent name 'Web'"),
        ({"sender": "*"}, InvalidNameError, "agent name '*'"),
        ({"cause": ""}, InvalidIdError, "event id ''"),
        ({"cause": EVENT.upper()}, InvalidIdError, "would do"),
        ({"at": -1}, MalformedEventError, "event.at is -1; it must be at least 0"),
        ({"at": 2**63}, LimitExceededError, "event.at: 9,223,372,036,854,775,808 is over"),
        ({"at": 1.5}, MalformedEventError, "`$.at`"),
        ({"at": "2026-01-01"}, MalformedEventError, "`$.at`"),
        ({"mentions": None}, MalformedEventError, "`$.mentions`"),
        ({"mentions": "web"}, MalformedEventError, "`$.mentions`"),
        ({"mentions": [""]}, InvalidNameError, "agent name ''"),
        ({"mentions": ["a", "b c"]}, InvalidNameError, "agent name 'b c'"),
        ({"mentions": [f"a{n}" for n in range(17)]}, LimitExceededError, "17 is over the limit"),
        ({"type": ""}, MalformedEventError, "type '' is not valid"),
        ({"type": "a\nb"}, MalformedEventError, "is not valid"),
        ({"type": "x.y\n"}, MalformedEventError, "is not valid"),
        ({"type": "x" * 129}, LimitExceededError, "129 is over the limit of 128"),
        ({"type": None}, MalformedEventError, "`$.type`"),
        ({"data": ...}, MalformedEventError, "missing required field `data`"),
        ({"data": []}, MalformedEventError, "Expected `object`, got `array`"),
        ({"data": None}, MalformedEventError, "Expected `object`, got `null`"),
        ({"data": {}}, MalformedEventError, "missing required field `parts`"),
        ({"data": {"parts": {}}}, MalformedEventError, "`$.data.parts`"),
        ({"data": {"parts": [{"kind": "audio"}]}}, MalformedEventError, "`$.data.parts[0].kind`"),
        ({"data": {"parts": [{"text": "x"}]}}, MalformedEventError, "`kind`"),
        ({"data": {"parts": [], "lane": "fast" * 999}}, MalformedEventError, "Invalid enum value"),
        ({"data": {"parts": [{"kind": "file", "content": "@"}]}}, MalformedEventError, "base64"),
        ({"type": "x.y", "data": []}, MalformedEventError, "x.y: data must be an object, it is []"),
        ({"type": "x.y", "data": None}, MalformedEventError, "data must be an object"),
        ({"type": "x.y", "data": "{}"}, MalformedEventError, "data must be an object"),
        ({"v": 2, "data": 1}, MalformedEventError, "data must be an object"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_foreign_body_that_is_wrong_is_refused(
    changes: dict[str, object], kind: type[SchemaError], words: str
) -> None:
    """The error is of the right kind and names the field and the value, in few words."""
    with pytest.raises(kind) as caught:
        decode_event(body(**changes))

    assert words in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b'"',
        b"\x00\x01\x02",
        b"\xff\xfe{\x00",
        b'\xef\xbb\xbf{"v":1}',
        b"hello",
        b"{'v': 1}",
        b'{"v":NaN}',
        b'{"v":1}' * 2,
        body()[:-1],
        body() + b"x",
        body().replace(b'"hi"', b'"\xff"'),
        body().replace(b'"hi"', b'"\x01"'),
        body(type="x.y").replace(b'"hi"', b'"\xed\xa0\x80"'),
        body().replace(b'"hi"', b'"hi","z":"\xff"'),
    ],
    ids=lambda value: ascii(value[-20:]),
)
def test_foreign_bytes_are_refused(junk: bytes) -> None:
    """Anything that is not the UTF-8 of one JSON object of an event is malformed."""
    with pytest.raises(MalformedEventError):
        decode_event(junk)


def test_space_around_a_body_is_fine() -> None:
    """A newline at the end, as command lines send it, does not matter."""
    assert decode_event(b" \n" + body() + b"\n") == event()


def test_fields_that_are_not_known_are_passed_over() -> None:
    """A newer writer may add fields at any level."""
    newer = body(
        tenant={"a": [1]}, data={"parts": [{"kind": "text", "text": "hi", "x": 1}], "y": 2}
    )

    assert decode_event(newer) == event()


def test_absent_optional_fields_have_their_defaults() -> None:
    """A body without cause and mentions is complete."""
    assert decode_event(body(cause=..., mentions=...)) == event(mentions=())


def test_a_mention_that_is_repeated_is_said_once() -> None:
    """A foreign body may repeat one; ours may not, as the server would deliver it twice."""
    twice = body(mentions=["planner", "web", "planner"])
    subject = f"bus.{TASK}.main.msg.web.planner.web.planner"

    assert decode_event(twice).mentions == (PLANNER, WEB)
    assert decode_recorded_event(subject, twice).mentions == (PLANNER, WEB)
    with pytest.raises(MalformedEventError, match="mentions 'planner' twice; once is enough"):
        encode_event(event(mentions=(PLANNER, WEB, PLANNER)))


def test_sixteen_mentions_are_the_most() -> None:
    """Sixteen travel; seventeen are refused with both numbers and a way out."""
    sixteen = tuple(AgentName(f"agent-{number}") for number in range(16))

    assert decode_event(encode_event(event(mentions=sixteen))).mentions == sixteen
    with pytest.raises(LimitExceededError, match="17 is over the limit of 16; send a second"):
        encode_event(event(mentions=(*sixteen, WEB)))


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"id": EVENT.upper()}, InvalidIdError, "would do"),
        ({"id": ""}, InvalidIdError, "event id ''"),
        ({"task": "x"}, InvalidIdError, "super-task id 'x'"),
        ({"thread": "a.b"}, InvalidNameError, "thread id 'a.b'"),
        ({"sender": "web.>"}, InvalidNameError, "agent name 'web.>'"),
        ({"mentions": ("",)}, InvalidNameError, "agent name ''"),
        ({"cause": "x"}, InvalidIdError, "event id 'x'"),
        ({"at": -1}, MalformedEventError, "event.at is -1"),
        ({"at": 2**70}, LimitExceededError, "is over the limit of 9,223,372,036,854,775,807"),
        ({"v": 2}, MalformedEventError, "message.posted is written in version 1 and no other"),
        ({"type": "task.opened"}, MalformedEventError, "does not go with the data"),
        ({"type": "x.y"}, MalformedEventError, "does not go with the data"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_an_event_that_is_wrong_is_not_sent(
    changes: dict[str, Any], kind: type[SchemaError], words: str
) -> None:
    """What a reader would refuse is refused before it is sent."""
    with pytest.raises(kind) as caught:
        encode_event(event(**changes))

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "kind", "words"),
    [
        (event(at=10**5000), LimitExceededError, "digits of message.posted.at: 5,001 is over"),
        (event(v=10**5000), MalformedEventError, "written in version 1"),
        (message([10**5000]), LimitExceededError, "limit of 4,300; send the number as a string"),
        (message({10**5000: 0}), LimitExceededError, "digits of a key of message.posted.data"),
    ],
    ids=["at", "v", "data", "key"],
)
def test_numbers_that_python_will_not_write_are_refused(
    sent: Event, kind: type[SchemaError], words: str
) -> None:
    """More than 4,300 digits are an error of ours, also where the error would show them."""
    with pytest.raises(kind) as caught:
        encode_event(sent)

    assert words in str(caught.value)


def test_a_status_goes_with_the_type_that_says_it() -> None:
    """A task is not closed as working, and does not become completed but by closing."""
    with pytest.raises(MalformedEventError, match="outcome 'working' is not final"):
        TaskClosed(outcome=TaskStatus.WORKING)
    with pytest.raises(MalformedEventError, match="'failed' is final; close the task"):
        TaskStatusChanged(status=TaskStatus.FAILED)
    with pytest.raises(MalformedEventError, match="outcome 'paused' is not final"):
        decode_event(body(type="task.closed", data={"outcome": "paused"}))


def test_opaque_data_is_kept_to_the_byte() -> None:
    """A type that is not known is encoded again exactly as it came, spaces and digits included."""
    raw = b'{ "a" : 1.50, "big":12345678901234567890123, "e":"\\u00e9", "a":[ ] }'
    foreign = body(type="weather.reported", data=...)[:-1] + b',"data":' + raw + b"}"

    decoded = decode_recorded_event(SUBJECT.replace(".msg.", ".ctl."), foreign)

    assert decoded.data == OpaqueData(raw=raw, event_class=EventClass.CTL)
    assert decoded.event_class is EventClass.CTL
    assert raw in encode_event(decoded)
    assert decode_recorded_event(decoded.subject, encode_event(decoded)) == decoded


def test_a_newer_version_of_a_known_type_is_opaque() -> None:
    """It is kept, with the class of its type, whatever its data looks like."""
    decoded = decode_event(body(v=2, data={"parts": "unlike ours"}))

    assert decoded.v == 2
    assert decoded.data == OpaqueData(raw=b'{"parts": "unlike ours"}', event_class=EventClass.MSG)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" {}",
        b"[]",
        b"{",
        b"{}}",
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":"\\u0000"}',
        b'{},"task":"0199b2f04c007a31b2c3d4e5f6071820"',
        b'{},"mentions":["web"]',
        b'{},"data":{"other":1}',
    ],
    ids=ascii,
)
def test_opaque_data_cannot_smuggle_anything_in(raw: bytes) -> None:
    """Bytes that are not one JSON object are refused, also where they would change the envelope."""
    opaque = OpaqueData(raw=raw, event_class=EventClass.OBS)

    with pytest.raises(SchemaError):
        encode_event(event(opaque, type="x.y"))


def test_opaque_data_of_a_known_type_is_refused() -> None:
    """What this code knows is sent as what it is."""
    opaque = OpaqueData(raw=b'{"parts":[]}', event_class=EventClass.MSG)

    with pytest.raises(MalformedEventError, match="of a type or a version that this code does not"):
        encode_event(event(opaque, type="message.posted"))


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        (SUBJECT.replace(TASK, TASK[:-1] + "0"), "task"),
        (SUBJECT.replace(".main.", ".other."), "thread"),
        (SUBJECT.replace(".web.", ".document."), "sender"),
        (SUBJECT.replace(".msg.", ".ctl."), "class"),
        (SUBJECT.replace(".planner", ""), "mentions"),
        (SUBJECT + ".document", "mentions"),
        (SUBJECT.replace("planner", "critique"), "mentions"),
    ],
)
def test_a_body_that_disagrees_with_its_subject_is_rejected(subject: str, field: str) -> None:
    """The error names what differs and both values."""
    with pytest.raises(SubjectMismatchError, match=f"{field} is") as caught:
        decode_recorded_event(subject, body())

    assert caught.value.field == field
    assert caught.value.in_subject != caught.value.in_body


def test_a_newer_version_must_keep_its_class() -> None:
    """A type that is known has its class in every version."""
    with pytest.raises(SubjectMismatchError, match="class is 'obs' in the subject and 'msg'"):
        decode_recorded_event(SUBJECT.replace(".msg.", ".obs."), body(v=2))


def test_a_foreign_subject_is_refused() -> None:
    """A subject that is not of the log is not looked up in a body."""
    with pytest.raises(InvalidSubjectError):
        decode_recorded_event("bus.hello", body())


def test_mentions_in_another_order_are_another_event() -> None:
    """The order of the mentions is the order of the tokens."""
    with pytest.raises(SubjectMismatchError):
        decode_recorded_event(SUBJECT + ".web", body(mentions=["web", "planner"]))


def test_lists_are_taken_for_tuples() -> None:
    """Who builds a struct with lists gets what they meant."""
    lists = MessagePosted(parts=cast("tuple[TextPart, ...]", [TextPart("hi")]))

    assert decode_event(encode_event(event(lists, mentions=[PLANNER]))) == event()


def test_files_are_kept_to_the_byte() -> None:
    """Every byte value survives base64."""
    part = FilePart(bytes(range(256)), name="all", media_type="application/x-all")

    decoded = decode_event(encode_event(event(MessagePosted(parts=(part,)))))

    assert cast("MessagePosted", decoded.data).parts == (part,)


def test_every_type_has_its_own_name_and_class() -> None:
    """Each type is a family and a verb, and no two share a name."""
    for name, kind in DATA_TYPES.items():
        assert name == kind.TYPE
        assert name.count(".") == 1
        assert kind.VERSION >= 1
        assert kind.CLASS in EventClass
    assert list(DATA_TYPES) == sorted(DATA_TYPES)
