"""Bodies from other programs: what is read, what is kept, what is refused."""

from __future__ import annotations

import pytest

from tests.support.schema_events import EVENT, SUBJECT, TASK, body, event
from threadbus.schemas import (
    EventClass,
    InvalidIdError,
    InvalidNameError,
    InvalidSubjectError,
    LimitExceededError,
    MalformedEventError,
    OpaqueData,
    SchemaError,
    SubjectMismatchError,
    decode_event,
    decode_recorded_event,
    encode_event,
)


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


def test_a_foreign_subject_is_refused() -> None:
    """A subject that is not of the log is not looked up in a body."""
    with pytest.raises(InvalidSubjectError):
        decode_recorded_event("bus.hello", body())


def test_mentions_in_another_order_are_another_event() -> None:
    """The order of the mentions is the order of the tokens."""
    with pytest.raises(SubjectMismatchError):
        decode_recorded_event(SUBJECT + ".web", body(mentions=["web", "planner"]))


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


def test_a_newer_version_must_keep_its_class() -> None:
    """A type that is known has its class in every version."""
    with pytest.raises(SubjectMismatchError, match="class is 'obs' in the subject and 'msg'"):
        decode_recorded_event(SUBJECT.replace(".msg.", ".obs."), body(v=2))
