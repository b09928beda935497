"""The generated documents: up to date, valid, and true of what is really sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings

from tests.support.json_schema import NotValidError, Validator, draft_7, draft_2020_12
from tests.support.schema_strategies import events
from threadbus.schemas import (
    DATA_TYPES,
    AgentCard,
    AgentRecord,
    Event,
    EventClass,
    Presence,
    encode_entry,
    encode_event,
    parse_event_subject,
    parse_mention_subject,
)
from threadbus.schemas.catalog import documents, drift, main

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "schemas"
GOLDEN: Final = {
    path.name: path
    for name, kind in DATA_TYPES.items()
    for path in (ROOT / "tests/golden/events" / f"v{kind.VERSION}").glob(f"{name}.*.json")
}
ASYNCAPI: Final[dict[str, Any]] = json.loads((FOLDER / "asyncapi.json").read_bytes())
EVENT: Final = draft_2020_12(json.loads((FOLDER / "event.json").read_bytes()))
MESSAGES: Final = [name for name in ASYNCAPI["components"]["messages"] if name in DATA_TYPES]


def test_the_committed_documents_are_what_the_structs_say() -> None:
    """After a change of a struct: python -m threadbus.schemas.catalog --write docs/schemas."""
    assert drift(FOLDER) == []


@pytest.mark.parametrize("path", [path for path in documents() if path != "asyncapi.json"])
def test_every_schema_is_valid_and_self_contained(path: str) -> None:
    """Draft 2020-12 accepts it, every reference resolves inside it, and nothing is left over."""
    document = json.loads((FOLDER / path).read_bytes())
    used = set(references(document))

    draft_2020_12(document)
    assert used == {f"#/$defs/{name}" for name in document.get("$defs", {})}


def references(node: object) -> Iterator[str]:
    """Yield every reference in *node*."""
    if isinstance(node, dict):
        members = cast("dict[str, object]", node)
        if "$ref" in members:
            yield cast("str", members["$ref"])
        for item in members.values():
            yield from references(item)
    elif isinstance(node, list):
        for item in cast("list[object]", node):
            yield from references(item)


@pytest.mark.parametrize("path", GOLDEN.values(), ids=GOLDEN)
def test_a_golden_event_satisfies_its_schemas(path: Path) -> None:
    """The schema of events, that of its data, and the payload of its AsyncAPI message."""
    event = json.loads(path.read_bytes())
    data_schema = json.loads((FOLDER / "data" / f"{event['type']}.json").read_bytes())

    EVENT.validate(event)
    draft_2020_12(data_schema).validate(event["data"])
    payload(event["type"]).validate(event)


def payload(type_name: str) -> Validator:
    """Return a validator for a message; AsyncAPI's schemas are a superset of draft 7."""
    message = ASYNCAPI["components"]["messages"][type_name]
    return draft_7({**message["payload"], "components": ASYNCAPI["components"]})


@settings(max_examples=60)
@given(events())
def test_whatever_can_be_sent_satisfies_the_schema(event: Event) -> None:
    """The schema is no stricter than the codec."""
    EVENT.validate(json.loads(encode_event(event)))


def break_it(event: dict[str, Any], path: list[str | int], value: object) -> dict[str, Any]:
    """Return *event* with another value at *path*."""
    copy = json.loads(json.dumps(event))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return cast("dict[str, Any]", copy)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("message.posted", ["v"], 0),
        ("message.posted", ["v"], 2),
        ("message.posted", ["type"], "task.opened"),
        ("message.posted", ["id"], "X" * 32),
        ("message.posted", ["sender"], "Web Agent"),
        ("message.posted", ["at"], -1),
        ("message.posted", ["cause"], ""),
        ("message.posted", ["mentions"], ["a"] * 2),
        ("message.posted", ["mentions"], [f"a{number}" for number in range(17)]),
        ("message.posted", ["data"], []),
        ("message.posted", ["data", "parts"], [{"kind": "audio"}]),
        ("message.posted", ["data", "parts"], [{"kind": "text", "text": ""}] * 65),
        ("message.posted", ["data", "parts", 3, "sha256"], "0" * 63),
        ("message.posted", ["data", "lane"], "fast"),
        ("task.opened", ["data", "title"], "x" * 401),
        ("task.opened", ["data", "labels"], {"k": "v" * 257}),
        ("task.opened", ["data", "token_budget"], 0),
        ("task.closed", ["data", "outcome"], "working"),
        ("task.status_changed", ["data", "status"], "completed"),
        ("assignment.progressed", ["data", "fraction"], 1.5),
        ("proposal.made", ["data", "voters"], []),
        ("vote.cast", ["data", "verdict"], "maybe"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_the_codec_refuses_the_schema_refuses(
    name: str, path: list[str | int], value: object
) -> None:
    """The schema is not laxer than the codec in what it can say."""
    golden = json.loads(GOLDEN[f"{name}.full.json"].read_bytes())
    EVENT.validate(golden)

    with pytest.raises(NotValidError):
        EVENT.validate(break_it(golden, path, value))


def test_registry_entries_satisfy_their_schemas() -> None:
    """An agent in another language can register itself by the schema alone."""
    record = AgentRecord(card=AgentCard(name="web"), holder="h")
    presence = Presence(agent="web", instance="i", holder="h")
    for entry, path in ((record, "agent-record.json"), (presence, "presence.json")):
        validator = draft_2020_12(json.loads((FOLDER / path).read_bytes()))

        validator.validate(json.loads(encode_entry(entry)))
        with pytest.raises(NotValidError):
            validator.validate({})


def test_every_field_has_its_bounds_and_a_name_in_the_schema() -> None:
    """Patterns are in the dialect of JSON Schema, and OpenAPI's own words are left out."""
    text = (FOLDER / "event.json").read_text(encoding="utf-8")

    assert r"\\Z" not in text
    assert "discriminator" not in text
    assert '"When the sender made it, in nanoseconds since the epoch' in text
    assert '"maxLength": 16384' in text


# The AsyncAPI document. Its shape was also held against the schema that AsyncAPI publishes for
# 3.0.0; what follows are the rules of it that this document could break.


def test_the_asyncapi_document_has_what_its_version_requires() -> None:
    """The fixed fields are there, and nothing that 3.0.0 does not know."""
    assert ASYNCAPI["asyncapi"] == "3.0.0"
    assert set(ASYNCAPI) <= {
        "asyncapi",
        "id",
        "info",
        "servers",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    assert {"title", "version"} <= set(ASYNCAPI["info"])
    assert {"host", "protocol"} <= set(ASYNCAPI["servers"]["local"])


def test_every_reference_in_the_asyncapi_document_resolves() -> None:
    """A reference points at something that is there."""
    for reference in set(references(ASYNCAPI)):
        node: Any = ASYNCAPI
        for key in reference.removeprefix("#/").split("/"):
            assert key in node, reference
            node = node[key]


def test_every_type_is_a_message_of_the_asyncapi_document() -> None:
    """Each has a payload, headers and the tag of its class, and goes through the log."""
    messages = ASYNCAPI["components"]["messages"]

    assert set(DATA_TYPES) == set(MESSAGES)
    for name, kind in DATA_TYPES.items():
        assert messages[name]["name"] == name
        assert messages[name]["summary"]
        assert messages[name]["tags"] == [{"name": kind.CLASS.value}]
        for channel in ("log", "logMentioning", "inbox", "stored", "storedMentioning"):
            expected = {"$ref": f"#/components/messages/{name}"}
            assert ASYNCAPI["channels"][channel]["messages"][name] == expected


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_refuses_the_event_of_another_type(name: str) -> None:
    """A payload is of its own type only."""
    other = next(other for other in MESSAGES if other != name)
    golden = GOLDEN[f"{other}.full.json"].read_bytes()

    with pytest.raises(NotValidError):
        payload(name).validate(json.loads(golden))


@pytest.mark.parametrize("name", ASYNCAPI["channels"])
def test_a_channel_declares_the_parameters_of_its_address(name: str) -> None:
    """Each parameter in braces is described, and no other."""
    channel = ASYNCAPI["channels"][name]
    pieces = [piece.partition("}")[0] for piece in channel["address"].split("{")[1:]]

    assert pieces == list(dict.fromkeys(pieces))
    assert set(pieces) == set(channel["parameters"])
    assert all(about["description"] for about in channel["parameters"].values())


def test_the_addresses_of_channels_are_the_subjects_of_the_bus() -> None:
    """Filled in, they parse as what the subjects module builds."""
    values = {
        "task": "0199b2f04c007a31b2c3d4e5f6071829",
        "thread": "main",
        "class": "msg",
        "sender": "web",
        "agent": "planner",
        "mentions": "planner.coder",
    }
    filled: dict[str, str] = {}
    for name, channel in ASYNCAPI["channels"].items():
        address = channel["address"]
        for parameter, value in values.items():
            address = address.replace(f"{{{parameter}}}", value)
        filled[name] = address

    assert parse_event_subject(filled["log"]).mentions == ()
    assert parse_event_subject(filled["logMentioning"]).mentions == ("planner", "coder")
    assert parse_mention_subject(filled["inbox"]).agent == "planner"
    assert filled["stored"] == f"stored.{filled['log']}"
    assert filled["storedMentioning"] == f"stored.{filled['logMentioning']}"
    assert filled["live"] == "live.0199b2f04c007a31b2c3d4e5f6071829.main.web"
    classes = ASYNCAPI["channels"]["log"]["parameters"]["class"]["enum"]
    assert classes == [event_class.value for event_class in EventClass]


def test_every_channel_is_used_by_an_operation() -> None:
    """Who sends and who receives is said for each."""
    used = {
        about["channel"]["$ref"].rpartition("/")[2] for about in ASYNCAPI["operations"].values()
    }

    assert used == set(ASYNCAPI["channels"])
    assert {about["action"] for about in ASYNCAPI["operations"].values()} == {"send", "receive"}


# The command.


def test_written_documents_pass_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing into an empty folder makes the check silent."""
    folder = tmp_path / "docs" / "schemas"

    assert main(["--write", str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_check_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed, a missing and a left-over file are named, with the command that mends them."""
    main(["--write", str(tmp_path)])
    (tmp_path / "event.json").write_text("{}")
    (tmp_path / "data" / "vote.cast.json").unlink()
    (tmp_path / "data" / "vote.recalled.json").write_text("{}")

    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/event.json: differs",
        f"{tmp_path}/data/vote.cast.json: is missing",
        f"{tmp_path}/data/vote.recalled.json: is not generated any more, delete it",
        f"run: python -m threadbus.schemas.catalog --write {tmp_path}",
    ]


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and the exit code says that it failed."""
    file = tmp_path / "file"
    file.write_text("")

    assert main(["--write", str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"cannot write {file}")


def test_the_command_runs_as_a_module() -> None:
    """As the documentation says: the committed folder is up to date."""
    command = [sys.executable, "-m", "threadbus.schemas.catalog", "--check", "docs/schemas"]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
