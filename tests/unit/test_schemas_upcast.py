"""Upcasting, with a synthetic type history: version 1 is read although version 3 is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from threadbus.schemas import (
    DATA_TYPES,
    UPCASTERS,
    InvalidTextError,
    MalformedEventError,
    MessagePosted,
    OpaqueData,
    SchemaError,
    TextPart,
    Upcaster,
    decode_event,
    decode_recorded_event,
    encode_event,
    upcast,
)

NAME = "message.posted"
FULL = Path(__file__).parents[1] / "golden" / "events" / "v1" / f"{NAME}.full.json"


def text_to_body(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had ``text``; version 2 called it ``body``."""
    return {"body": data["text"]}


def body_to_parts(data: dict[str, Any]) -> dict[str, Any]:
    """Version 3 has parts."""
    return {"parts": [{"kind": "text", "text": data["body"].upper()}]}


STEPS: dict[tuple[str, int], Upcaster] = {(NAME, 1): text_to_body, (NAME, 2): body_to_parts}


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``message.posted`` be at version 3, as if it had changed twice."""
    monkeypatch.setattr(MessagePosted, "VERSION", 3)
    for key, step in STEPS.items():
        monkeypatch.setitem(UPCASTERS, key, step)


def body(version: int, data: object) -> bytes:
    """Make an event of an older or newer writer."""
    return json.dumps(json.loads(FULL.read_bytes()) | {"v": version, "data": data}).encode()


def test_steps_are_taken_one_version_at_a_time() -> None:
    """Each step sees what the one before made, and the argument stays as it was."""
    old = {"text": "hi"}

    assert upcast(NAME, 1, old, STEPS, target=3) == {"parts": [{"kind": "text", "text": "HI"}]}
    assert upcast(NAME, 2, {"body": "hi"}, STEPS, target=3)["parts"][0]["text"] == "HI"
    assert upcast(NAME, 1, old, STEPS, target=2) == {"body": "hi"}
    assert upcast(NAME, 3, {"parts": []}, STEPS, target=3) == {"parts": []}
    assert upcast("x.y", 1, old, STEPS, target=3) == old is not upcast("x.y", 1, old, target=3)
    assert old == {"text": "hi"}


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, {"text": "hi"}),
        (2, {"body": "hi"}),
        (3, {"parts": [{"kind": "text", "text": "HI"}]}),
    ],
)
def test_every_version_is_read_as_the_latest(version: int, data: dict[str, Any]) -> None:
    """Readers see one form only; what is read is of today's version and can be sent on."""
    event = decode_event(body(version, data))

    assert event.data == MessagePosted(parts=(TextPart("HI"),))
    assert event.v == 3
    assert decode_event(encode_event(event)) == event
    assert decode_recorded_event(event.subject, body(version, data)) == event


@pytest.mark.usefixtures("history")
def test_a_newer_version_is_opaque() -> None:
    """An old reader keeps what it cannot read."""
    assert isinstance(decode_event(body(4, {"hologram": 1})).data, OpaqueData)


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ({}, MalformedEventError, "its data is not of version 1 (KeyError: 'text')"),
        ({"text": 5}, MalformedEventError, "AttributeError"),
        ([], MalformedEventError, "its data is not of version 1 (ValidationError"),
        ({"text": "a\0"}, InvalidTextError, "U+0000"),
    ],
    ids=["field missing", "wrong type", "no object", "NUL"],
)
def test_foreign_bytes_that_claim_an_old_version_are_refused(
    data: object, kind: type[SchemaError], words: str
) -> None:
    """An upcaster that does not find what it expects is no crash."""
    with pytest.raises(kind) as caught:
        decode_event(body(1, data))

    assert words in str(caught.value)


@pytest.mark.usefixtures("history")
def test_what_an_upcaster_makes_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that makes something wrong is found at the first old event."""
    monkeypatch.setitem(UPCASTERS, (NAME, 2), lambda data: {"parts": data})

    with pytest.raises(MalformedEventError, match=r"Expected `array`, got `object`"):
        decode_event(body(1, {"text": "hi"}))


def test_a_version_without_a_step_reads_as_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new value of an enumeration needs a version but no step."""
    monkeypatch.setattr(MessagePosted, "VERSION", 2)
    golden = decode_event(FULL.read_bytes())

    assert isinstance(golden.data, MessagePosted)
    assert golden.v == 2
    assert len(golden.data.parts) == 5


def test_the_table_has_steps_for_known_types_below_their_version() -> None:
    """A step for a type or a version that does not exist would never be taken."""
    for name, version in UPCASTERS:
        assert 1 <= version < DATA_TYPES[name].VERSION
