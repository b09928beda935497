"""What one event says, in words: a head, a body, and how much it matters. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import msgspec

from threadbus.agents.cli.text import duration, one_line, plural, size
from threadbus.schemas import (
    AgentThrottled,
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentAccepted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentProgressed,
    ConsensusFailed,
    ConsensusReached,
    CritiqueGiven,
    DataPart,
    ErrorInfo,
    Event,
    FilePart,
    HandlingFailed,
    HandlingStarted,
    InputGiven,
    InputRequested,
    Lane,
    MentionDeadLettered,
    MentionReceived,
    MentionStored,
    MessagePosted,
    ModelCalled,
    ParticipantAdded,
    ParticipantRemoved,
    Parts,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    ReferencePart,
    TaskClosed,
    TaskForked,
    TaskOpened,
    TaskStatusChanged,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    ThreadStateChanged,
    ToolCalled,
    ToolReturned,
    VoteCast,
)

PLAYBOOK: Final = "playbook"
_ARGUMENT_CHARS: Final = 120


@dataclass(frozen=True)
class Line:
    """What an event says; nothing in it is made harmless yet."""

    head: str
    body: str = ""
    style: str = ""
    tail: str = ""
    """What follows the names of those who are told."""
    to: str = ""
    """Whom it is said to, when nobody is mentioned: whoever asked."""


def describe(event: Event, asked_by: str = "") -> Line | None:
    """Return what *event* says, or None where it says nothing to a person.

    Args:
        event: any event.
        asked_by: who sent the event that this one answers, where it is known.
    """
    return _conversation(event, asked_by) or _work(event, asked_by) or _observation(event)


def _conversation(event: Event, asked_by: str) -> Line | None:
    match event.data:
        case TaskOpened() as data:
            others = [name for name in data.participants if name not in event.mentions]
            team = f", with {', '.join(others)} at hand" if others else ""
            return Line("asks", _shown(data.parts), "bold", team)
        case TaskForked() as data:
            what = f"goes on from a copy of {data.origin.task}, up to entry {data.origin.seq}"
            return Line(what, "; ".join(data.notes), "bold")
        case TaskStatusChanged() as data:
            return Line(f"says where it stands: {data.status}", data.note)
        case InputRequested() as data:
            return Line("needs an answer from you", _shown(data.parts), "bold yellow")
        case InputGiven() as data:
            return Line("answers", _shown(data.parts), "bold")
        case ArtifactAdded() as data:
            return Line(f"adds {data.name}", data.description or _shown((data.part,)))
        case TaskClosed() as data:
            style = "bold green" if data.outcome == "completed" else "bold red"
            return Line(f"closes the super-task: {data.outcome}", data.summary, style)
        case ThreadOpened() as data:
            names = f" with {', '.join(data.participants)}" if data.participants else ""
            return Line(f"opens a thread{names}: {data.title}", data.goal, "bold")
        case ParticipantAdded() as data:
            return Line(f"lets {data.participant} in")
        case ParticipantRemoved() as data:
            return Line(f"takes {data.participant} out", data.reason)
        case ThreadStateChanged(wakes=str()) as data:
            return Line(f"is woken: {data.reason}")
        case ThreadStateChanged() as data:
            return Line(f"turns the conversation to {data.state.value.replace('_', ' ')}")
        case ThreadClosed() as data:
            return Line(f"closes the thread: {data.outcome}", data.summary, "bold")
        case MessagePosted() as data:
            verb = "asks quickly" if data.lane is Lane.QUICK and event.mentions else "says"
            return Line(verb, _shown(data.parts), to=asked_by)
        case _:
            return None


def _work(event: Event, asked_by: str) -> Line | None:
    match event.data:
        case PlanProposed() | PlanRevised() as data:
            steps = [
                f"{number}. {step.title}" + (f" ({step.assignee})" if step.assignee else "")
                for number, step in enumerate(data.steps, 1)
            ]
            verb = "plans" if isinstance(data, PlanProposed) else "plans anew"
            return Line(verb, "\n".join(steps))
        case AssignmentMade() as data:
            title = f": {data.title}" if data.title else ""
            return Line("gives work", _shown(data.parts), tail=title)
        case AssignmentAccepted() as data:
            return Line("takes the work on", data.note)
        case AssignmentProgressed() as data:
            share = "" if data.fraction is None else f" ({data.fraction:.0%})"
            return Line(f"is at it{share}: {data.note}", style="dim")
        case AssignmentFinished() as data:
            return Line("is done", _shown(data.parts), "green", to=asked_by)
        case AssignmentFailed() as data:
            return Line("could not do it", _error(data.error), "red", to=asked_by)
        case AssignmentCancelled() as data:
            return Line("takes the work back", data.reason)
        case CritiqueGiven() as data:
            return Line(f"judges: {data.verdict}", "\n".join(data.reasons), to=asked_by)
        case ProposalMade() as data:
            return Line(f"puts to the vote of {', '.join(data.voters)}", _shown(data.parts))
        case VoteCast() as data:
            return Line(f"votes: {data.verdict}", "\n".join(data.reasons))
        case ConsensusReached() as data:
            return Line(f"finds agreement: {plural(len(data.approvals), 'approval')}")
        case ConsensusFailed() as data:
            return Line("finds no agreement", data.reason)
        case AnswerSubmitted() as data:
            dissent = "\n".join(f"dissent: {reason}" for reason in data.dissent)
            return Line("submits the answer", dissent, "bold green", to=asked_by)
        case _:
            return None


def _observation(event: Event) -> Line | None:
    match event.data:
        case MentionStored() as data:
            names = ", ".join(data.agents)
            return Line(f"stored: {names} not living; it waits until started", style="yellow")
        case MentionReceived() as data:
            ahead = f"; {data.queue_depth} ahead" if data.queue_depth else ""
            doing = f" with {data.busy_with}" if data.busy_with else ""
            return Line(f"is busy{doing}{ahead}", style="yellow")
        case HandlingStarted() as data if data.attempt > 1:
            return Line(f"tries again (attempt {data.attempt})", style="yellow")
        case HandlingFailed() as data:
            again = "" if data.retry_in_ns is None else f"; again in {duration(data.retry_in_ns)}"
            return Line(f"failed (attempt {data.attempt}){again}", _error(data.error), "red")
        case MentionDeadLettered() as data:
            return Line("gave it up", _error(data.error), "bold red")
        case AgentThrottled() as data:
            limit = f"{data.allowed:,} {data.limit}".replace("_", " ")
            how = data.action.value.replace("_", " ")
            return Line(f"{data.agent} went over {limit}: {how}", data.reason, "yellow")
        case ModelCalled() as data:
            return _model_call(data)
        case ToolCalled() as data:
            return Line(f"runs {data.tool}({_arguments(data.arguments)})", style="dim")
        case ToolReturned() as data if data.error is not None:
            return Line(f"{data.tool} failed", _error(data.error), "red")
        case ToolReturned() as data:
            shown = size(sum(_size(part) for part in data.parts))
            return Line(f"{data.tool} gave {shown} in {duration(data.duration_ns)}", style="dim")
        case _:
            if event.type.partition(".")[0] in {"handling", "context"}:
                return None
            return Line(f"{event.type}, which this version does not know", style="dim")


def _model_call(data: ModelCalled) -> Line:
    label = "playbook, no model" if data.system == PLAYBOOK else f"model {data.model}"
    if data.error is not None:
        return Line(f"{label}: no answer", _error(data.error), "red")
    used = f"{data.input_tokens:,} + {data.output_tokens:,} tokens"
    return Line(f"thinks [{label}]: {used}, {duration(data.duration_ns)}", style="dim")


def _error(error: ErrorInfo) -> str:
    return f"{error.kind}: {error.message}"


def _arguments(arguments: object) -> str:
    if isinstance(arguments, dict):
        pairs = cast("dict[str, object]", arguments).items()
        shown = ", ".join(f"{key}={_value(value)}" for key, value in pairs)
    else:
        shown = "" if arguments is None else _value(arguments)
    return one_line(shown, _ARGUMENT_CHARS)


def _value(value: object) -> str:
    return value.strip() if isinstance(value, str) else msgspec.json.encode(value).decode()


def _shown(parts: Parts) -> str:
    lines: list[str] = []
    files: list[str] = []
    for part in parts:
        match part:
            case TextPart():
                lines.append(part.text)
            case DataPart():
                lines.append(msgspec.json.encode(part.data).decode())
            case FilePart() | ReferencePart():
                files.append(f"{part.name or 'unnamed'} ({size(_size(part))})")
    if files:
        lines.append(f"files: {', '.join(files)}")
    return "\n".join(lines)


def _size(part: object) -> int:
    match part:
        case TextPart():
            return len(part.text.encode("utf-8", "replace"))
        case FilePart():
            return len(part.content)
        case ReferencePart():
            return part.size
        case _:
            return len(msgspec.json.encode(part))
