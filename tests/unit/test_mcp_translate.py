"""Events, errors and tools as MCP hosts read them: pure, and golden."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.golden import FOLDER, assert_golden
from tests.support.json_schema import draft_2020_12
from threadbus.bus import (
    AgentNameTakenError,
    AppendTimeoutError,
    ConflictError,
    InvalidTransitionError,
    MentionFailedError,
    NoServerError,
    NotAParticipantError,
    PayloadTooLargeError,
    PermissionDeniedError,
    StorageFullError,
    TaskFailedError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
)
from threadbus.gateways.errors import AmbiguousNameError, BadArgumentError
from threadbus.gateways.mcp.failures import explain, internal
from threadbus.gateways.mcp.results import Sent
from threadbus.gateways.mcp.toolbox import ALIASES, TOOLS
from threadbus.gateways.mcp.translate import is_shown, message_of
from threadbus.gateways.mcp.wire import failure_of, result_of, tool_of
from threadbus.schemas import AgentName, FilePart, ThreadbusError, decode_event

EVENTS = sorted((FOLDER / "events").glob("v*/*.json"))
TASK = "0199b2f04c007a31b2c3d4e5f6071829"
ERRORS: list[ThreadbusError] = [
    UnknownAgentError("plannr", ["planner"]),
    UnknownAgentError("x" * 500),
    NotAParticipantError(["web"], TASK, "main", ["ada", "bob"]),
    NotAParticipantError(["ada"], TASK, "main", ["bob"]),
    ThreadClosedError(TASK, "talk", "concluded", "We agreed on 42."),
    ThreadClosedError(TASK, "main", "cancelled"),
    ThreadNotFoundError(TASK, "tlk", ["main", "talk"]),
    TaskNotFoundError(TASK),
    InvalidTransitionError("adding web", "it takes part already", ["mention it"]),
    MentionFailedError("web", "ValueError", "no such page"),
    TaskFailedError(TASK, "failed", "nobody knew"),
    AppendTimeoutError("e1", 30.0),
    WaitTimeoutError("the reply of web", 5),
    ConflictError("bus.x", 16, 7),
    StorageFullError("10077"),
    PermissionDeniedError("publish", "bus.x"),
    PayloadTooLargeError(2_000_000, 1_048_576),
    NoServerError("nats://secret-host:4222", "refused"),
    AgentNameTakenError("ada", "h1", "box", 7),
    AmbiguousNameError("a b", ["a-b", "a_b"]),
    BadArgumentError("quorum", "3 approvals of 2 voters", "ask for fewer"),
]


def translated(path: Path) -> dict[str, Any]:
    """Return a golden event as a message."""
    event = decode_event(path.read_bytes())
    reader = event.mentions[0] if event.mentions else AgentName("ada")
    message = msgspec.to_builtins(message_of(event, reader))
    return {"shown": is_shown(event), **message}


def test_golden_events_are_translated_as_they_always_were() -> None:
    """The words that a model reads for an event do not change by accident."""
    path = FOLDER / "mcp" / "messages.json"
    known = list(json.loads(path.read_text())) if path.is_file() else []
    names = {f"{event.parent.name}/{event.name}": event for event in EVENTS}
    chosen = {name: translated(names[name]) for name in known or names}

    assert_golden("mcp/messages.json", json.dumps(chosen, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_every_event_has_words_that_can_travel(path: Path) -> None:
    """No type of event is left without a text, also one that came later."""
    message = translated(path)

    json.dumps(message, ensure_ascii=False).encode()
    assert (
        not message["shown"]
        or message["text"]
        or message["data"]
        or message["files"]
        or not path.stem.endswith("full")
    )


def test_errors_say_what_to_do_next_as_they_always_did() -> None:
    """Each names what was given, and the tool or the name that helps."""
    told = {
        f"{number:02} {type(error).__name__}": msgspec.to_builtins(explain(error, "ada"))
        for number, error in enumerate(ERRORS)
    }

    assert_golden("mcp/errors.json", json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def test_an_error_tells_nothing_of_the_inside() -> None:
    """Neither the address of the bus nor the words of an unexpected error reach a host."""
    assert "secret-host" not in explain(NoServerError("nats://secret-host:4222", "x"), "ada").text
    assert internal("ab12").text.count("ab12") == 1


def test_tools_are_listed_as_they_always_were() -> None:
    """Names, descriptions and both schemas are what hosts and models rely on."""
    listed = [
        tool_of(tool).model_dump(mode="json", by_alias=True, exclude_none=True)
        for tool in [*TOOLS.values(), *ALIASES.values()]
    ]

    assert_golden("mcp/tools.json", json.dumps(listed, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("tool", [*TOOLS.values(), *ALIASES.values()], ids=lambda tool: tool.name)
def test_a_tool_has_schemas_that_strict_hosts_take(tool: Any) -> None:
    """Both are objects in one piece, the arguments closed, without what providers refuse."""
    for schema in (tool.input_schema, tool.output_schema):
        draft_2020_12(schema)
        assert schema["type"] == "object"
        text = json.dumps(schema)
        assert "$ref" not in text
        assert "uniqueItems" not in text
    assert tool.input_schema["additionalProperties"] is False
    assert re.fullmatch(r"[a-z_]{1,64}", tool.name)
    assert len(tool.description) < 1000


def test_the_coral_names_take_the_parameters_of_coral() -> None:
    """An agent that was written for the newer Coral server finds its tools as it knows them."""
    takes = {name: sorted(tool.input_schema["properties"]) for name, tool in ALIASES.items()}

    assert takes == {
        "coral_create_thread": ["participantNames", "threadName"],
        "coral_close_thread": ["summary", "threadId"],
        "coral_add_participant": ["participantName", "threadId"],
        "coral_remove_participant": ["participantName", "threadId"],
        "coral_send_message": ["content", "mentions", "threadId"],
        "coral_wait_for_message": ["currentUnixTime", "maxWaitMs"],
        "coral_wait_for_mention": ["currentUnixTime", "maxWaitMs"],
        "coral_wait_for_agent": ["agentName", "currentUnixTime", "maxWaitMs"],
    }


def test_a_result_goes_as_structure_and_as_the_same_text() -> None:
    """A host that shows text only shows what the structure says."""
    result = result_of(Sent(message_id="m", thread_id="t", notes=["é\u2028"]))

    assert result.is_error is False
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    draft_2020_12(TOOLS["send_message"].output_schema).validate(result.structured_content)


def test_a_result_that_no_client_would_take_is_an_error_that_says_so() -> None:
    """Common clients end the connection at an event above 1 MiB."""
    result = result_of(Sent(message_id="m", thread_id="t", notes=["x" * 500_000]))

    assert result.is_error
    assert "500,0" in result.content[0].text  # type: ignore[union-attr]
    assert result.structured_content is None


def test_files_come_beside_the_result_as_what_they_are() -> None:
    """An image is an image, a sound a sound; what does not fit any more is left out."""
    files = [
        FilePart(b"p", "a.png", "image/png"),
        FilePart(b"w", "a.wav", "audio/wav"),
        FilePart(b"z", "a.zip", "application/zip"),
        FilePart(b"x" * 300_000, "big", "image/png"),
    ]
    result = result_of(Sent(message_id="m", thread_id="t"), files)

    assert [block.type for block in result.content] == ["text", "image", "audio", "resource"]


def test_a_failure_is_an_error_for_models_and_for_programs() -> None:
    """The text is for the model, the kind and the details in `_meta` are for programs."""
    result = failure_of(explain(UnknownAgentError("plannr", ["planner"]), "ada"))

    assert result.is_error
    assert result.meta == {
        "threadbus/error": {
            "kind": "UnknownAgentError",
            "name": "plannr",
            "nearest": ["planner"],
        }
    }
