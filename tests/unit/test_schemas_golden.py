"""Golden events: what was ever written must be read for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from threadbus.schemas import (
    DATA_TYPES,
    Event,
    EventClass,
    MessagePosted,
    OpaqueData,
    Origin,
    TextPart,
    decode_event,
    decode_recorded_event,
    encode_event,
)

FOLDER = Path(__file__).parents[1] / "golden" / "events"
FILES = sorted(FOLDER.glob("v*/*.json"))


def type_of(path: Path) -> str:
    """Return the type that a golden file is named after."""
    return ".".join(path.name.split(".")[:2])


def latest(name: str) -> Path:
    """Return the folder of the version in which events of a type are written."""
    return FOLDER / f"v{DATA_TYPES[name].VERSION}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_event_is_read_and_written_again(path: Path) -> None:
    """It decodes to its type and encodes as the file of the latest version, with its subject."""
    body = path.read_bytes()
    event = decode_event(body)

    assert event.type == type_of(path)
    assert type(event.data) is DATA_TYPES[event.type]
    assert f"v{json.loads(body)['v']}" == path.parent.name
    expected = (latest(event.type) / path.name).read_bytes()
    assert json.loads(encode_event(event)) == json.loads(expected)
    assert decode_recorded_event(event.subject, body) == event


@pytest.mark.parametrize("name", DATA_TYPES)
def test_every_type_has_a_full_and_a_minimal_golden_event(name: str) -> None:
    """A new type, or a new version of one, cannot be released without its golden events."""
    assert (latest(name) / f"{name}.full.json").is_file()
    assert (latest(name) / f"{name}.minimal.json").is_file()


def test_no_golden_event_is_of_a_type_that_is_gone() -> None:
    """A type that was ever released stays."""
    assert {type_of(path) for path in FILES} == set(DATA_TYPES)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_the_golden_events_of_a_type_have_each_of_its_fields(name: str) -> None:
    """A new field cannot be released without a golden event that has it set."""
    bodies = [json.loads(path.read_bytes()) for path in latest(name).glob(f"{name}.*.json")]
    minimal = json.loads((latest(name) / f"{name}.minimal.json").read_bytes())
    fields = msgspec.structs.fields(DATA_TYPES[name])

    assert {key for body in bodies for key in body["data"]} >= {field.name for field in fields}
    assert set(minimal["data"]) == {field.name for field in fields if field.required}


def test_golden_events_have_each_kind_of_part_with_each_of_its_fields() -> None:
    """The same for the parts that messages are made of."""
    posted = decode_event((latest("message.posted") / "message.posted.full.json").read_bytes())
    data = cast("MessagePosted", posted.data)

    written = json.loads(encode_event(posted))["data"]["parts"]
    for part in data.parts:
        names = {field.name for field in msgspec.structs.fields(part)}
        kind = type(part).__struct_config__.tag
        assert {key for item in written if item["kind"] == kind for key in item} == {"kind", *names}


def test_golden_events_have_each_field_of_an_origin() -> None:
    """A copy says what it is a copy of."""
    copied = decode_event((latest("message.posted") / "message.posted.copied.json").read_bytes())
    written = json.loads(encode_event(copied))["origin"]

    assert set(written) == {field.name for field in msgspec.structs.fields(Origin)}
    assert copied.copy_of is not None
    assert (copied.mentions, copied.addressees) == ((), ("coder",))


def foreign(name: str) -> tuple[bytes, Event]:
    """Read a file that another program might have written."""
    body = (FOLDER / "foreign" / f"{name}.json").read_bytes()
    return body, decode_event(body)


def test_a_body_from_another_language_is_read() -> None:
    """Key order, spaces, escapes, unknown fields and a repeated mention do not matter."""
    _, event = foreign("message.posted.other-language")

    assert event.data == MessagePosted(parts=(TextPart("café 🚀 / done"),))
    assert event.mentions == ("planner",)
    assert event.cause is None


@pytest.mark.parametrize(
    ("name", "event_class"),
    [
        ("weather.reported.unknown-type", EventClass.OBS),
        ("message.posted.newer-version", EventClass.MSG),
    ],
)
def test_what_is_not_known_yet_is_kept(name: str, event_class: EventClass) -> None:
    """An unknown type and an unknown version keep their data to the byte."""
    body, event = foreign(name)

    assert isinstance(event.data, OpaqueData)
    assert event.data.event_class is event_class
    assert event.data.raw in body
    assert event.data.raw in encode_event(event)
    assert decode_event(encode_event(event)) == event


def test_golden_files_are_one_line_each() -> None:
    """They are what goes over the wire, a newline added; nobody has reformatted them."""
    written = list(Event.__struct_fields__)
    assert written[-1] == "origin"
    for path in FILES:
        body = path.read_bytes()
        fields: dict[str, Any] = json.loads(body)

        assert body.endswith(b"}\n")
        assert body.count(b"\n") == 1
        assert list(fields) in (written[:-1], written)
