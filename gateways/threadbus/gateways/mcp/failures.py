"""Errors into what tells a model, or a person, what to do next. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from threadbus.bus import (
    AgentNameTakenError,
    AgentReplacedError,
    AppendTimeoutError,
    ArtifactError,
    BusError,
    ClosedError,
    ConflictError,
    ConnectError,
    InvalidTransitionError,
    MentionFailedError,
    NotAParticipantError,
    PayloadTooLargeError,
    PermissionDeniedError,
    ReadError,
    StorageFullError,
    TaskFailedError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
)
from threadbus.gateways.errors import GatewayError
from threadbus.gateways.text import cut_text
from threadbus.schemas import SchemaError, ThreadbusError, clean_text, shorten

_MAX_BYTES = 8 * 1024


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, for a tool result with ``isError``."""

    text: str
    """What happened and what to do next."""
    kind: str
    """The name of the error, for programs."""
    details: dict[str, Any] = {}
    """What the text names, for programs."""


def explain(error: ThreadbusError, me: str) -> Failure:
    """Say what *error* means to the agent *me* that called.

    Args:
        error: anything that threadbus raises.
        me: the caller's own name.
    """
    text, details = _words(error, me)
    return Failure(
        text=cut_text(clean_text(text), _MAX_BYTES), kind=type(error).__name__, details=details
    )


def internal(reference: str) -> Failure:
    """Say that the gateway itself failed, and nothing of what is inside."""
    return Failure(
        text=f"The gateway failed on this call (its log has it as {reference}). Nothing is known "
        "of the outcome; look at the thread before you try again.",
        kind="InternalError",
        details={"reference": reference},
    )


def bad_arguments(tool: str, reason: str, takes: str) -> Failure:
    """Say which argument of a tool is wrong."""
    return Failure(
        text=f"{tool}: {shorten(reason, 400)}. {takes}",
        kind="InvalidArguments",
        details={"tool": tool},
    )


def _words(error: ThreadbusError, me: str) -> tuple[str, dict[str, Any]]:
    match error:
        case UnknownAgentError():
            near = f"Did you mean {' or '.join(error.nearest)}? " if error.nearest else ""
            return (
                f"No agent {shorten(error.name)!r} is registered. {near}"
                "list_agents names all of them; use a name exactly as it stands there.",
                {"name": shorten(error.name), "nearest": list(error.nearest)},
            )
        case NotAParticipantError():
            return _outside(error, me)
        case ThreadClosedError():
            said = f" Its summary: {error.summary}" if error.summary else ""
            return (
                f"Thread {error.task}/{error.thread} is closed ({error.outcome}).{said} "
                "Nothing can be added to it; get_thread still reads it, create_thread opens "
                "another.",
                {"outcome": error.outcome, "summary": error.summary},
            )
        case ThreadNotFoundError():
            known = [f"{error.task}/{thread}" for thread in error.known]
            there = f" The threads of its super-task are {', '.join(known)}." if known else ""
            return (
                f"There is no thread {shorten(error.thread)!r} in super-task {error.task}.{there} "
                "list_threads names those that you are in.",
                {"threads": known},
            )
        case TaskNotFoundError():
            return (
                f"There is no super-task {error.task}. list_threads names the threads that you "
                "are in; a thread_id is used exactly as a result gave it.",
                {"task_id": error.task},
            )
        case InvalidTransitionError():
            return (f"{error.what} is not possible: {error.state}. {_possible(error.allowed)}", {})
        case MentionFailedError():
            return (
                f"Agent {error.agent} could not do it: {error.kind}: {error.message}. Ask "
                "differently, or ask another agent (find_agents).",
                {"agent": error.agent, "error": error.kind},
            )
        case TaskFailedError():
            why = f": {error.reason}" if error.reason else ""
            return (
                f"Super-task {error.task} ended without an answer ({error.outcome}){why}. "
                "get_thread shows what happened.",
                {"task_id": error.task, "outcome": error.outcome},
            )
        case AppendTimeoutError():
            return (
                "The bus did not acknowledge in time, so it is not known whether this was stored. "
                "Call again with the same idempotency_key, or look with get_thread first.",
                {},
            )
        case WaitTimeoutError():
            return (f"{error.what} did not come yet. Wait again, nothing is lost.", {})
        case ConflictError():
            return ("Others changed the thread at the same moment, again and again. Try again.", {})
        case StorageFullError():
            return ("The bus has no room for more. Nothing was stored; tell your operator.", {})
        case PermissionDeniedError():
            return (
                "The gateway may not do this on the bus. Nothing was stored; tell your operator.",
                {},
            )
        case AgentNameTakenError() | AgentReplacedError():
            return (
                f"The name {me} is held by another process that is not a gateway. It has to stop, "
                "or you need a token for another name.",
                {"agent": me},
            )
        case PayloadTooLargeError() | ArtifactError() | SchemaError() | GatewayError():
            return (_sentence(str(error)), {})
        case ConnectError() | ReadError() | ClosedError():
            return ("The bus does not answer at the moment. Nothing is lost; try again soon.", {})
        case BusError():
            return (_sentence(str(error)), {})
        case _:
            return (_sentence(str(error)), {})


def _outside(error: NotAParticipantError, me: str) -> tuple[str, dict[str, Any]]:
    where = f"thread {error.task}/{error.thread}"
    inside = ", ".join(error.participants)
    details = {"names": list(error.names), "participants": list(error.participants)}
    if me in error.names:
        return (
            f"You ({me}) do not take part in {where}. Its participants are {inside}: one of them "
            "can add you with add_participant.",
            details,
        )
    return (
        f"{', '.join(error.names)} cannot be mentioned: not in {where}. Its participants are "
        f"{inside}. Mention one of these, or add_participant first.",
        details,
    )


def _possible(allowed: tuple[str, ...]) -> str:
    return f"Possible: {', '.join(allowed)}." if allowed else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")
