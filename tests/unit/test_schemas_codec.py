"""The codec: events come back as they were, and what is wrong is not sent."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given

from tests.support.schema_events import EVENT, PLANNER, TASK, WEB, body, event
from tests.support.schema_strategies import events
from threadbus.schemas import (
    DATA_TYPES,
    MAIN_THREAD,
    AgentName,
    Event,
    EventClass,
    InvalidIdError,
    InvalidNameError,
    LimitExceededError,
    MalformedEventError,
    MessagePosted,
    OpaqueData,
    SchemaError,
    TaskClosed,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    decode_event,
    decode_recorded_event,
    encode_event,
    make_event,
)


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


def test_a_mention_that_is_repeated_is_said_once() -> None:
    """A foreign body may repeat one; ours may not, as the server would deliver it twice."""
    twice = body(mentions=["planner", "web", "planner"])
    subject = f"bus.{TASK}.main.msg.web.planner.web.planner"

    assert decode_event(twice).mentions == (PLANNER, WEB)
    assert decode_recorded_event(subject, twice).mentions == (PLANNER, WEB)
    # As an export writes its subject.
    once = decode_event(twice).subject
    assert decode_recorded_event(once, twice).mentions == (PLANNER, WEB)
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


def test_a_status_goes_with_the_type_that_says_it() -> None:
    """A task is not closed as working, and does not become completed but by closing."""
    with pytest.raises(MalformedEventError, match="outcome 'working' is not final"):
        TaskClosed(outcome=TaskStatus.WORKING)
    with pytest.raises(MalformedEventError, match="'failed' is final; close the task"):
        TaskStatusChanged(status=TaskStatus.FAILED)
    with pytest.raises(MalformedEventError, match="outcome 'paused' is not final"):
        decode_event(body(type="task.closed", data={"outcome": "paused"}))


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


def test_lists_are_taken_for_tuples() -> None:
    """Who builds a struct with lists gets what they meant."""
    lists = MessagePosted(parts=cast("tuple[TextPart, ...]", [TextPart("hi")]))

    assert decode_event(encode_event(event(lists, mentions=[PLANNER]))) == event()


def test_every_type_has_its_own_name_and_class() -> None:
    """Each type is a family and a verb, and no two share a name."""
    for name, kind in DATA_TYPES.items():
        assert name == kind.TYPE
        assert name.count(".") == 1
        assert kind.VERSION >= 1
        assert kind.CLASS in EventClass
    assert list(DATA_TYPES) == sorted(DATA_TYPES)
