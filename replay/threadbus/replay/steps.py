"""What one event says, as a step of the story: texts cut, numbers bounded, ids kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, assert_never, cast

import msgspec

from threadbus.replay.kept import Artifact
from threadbus.replay.story import FailureStep, Fault, ModelStep, SaidStep, ToolStep
from threadbus.replay.text import LAST_NS
from threadbus.schemas import (
    AgentThrottled,
    AnswerSubmitted,
    AnyData,
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
    InputGiven,
    InputRequested,
    MentionDeadLettered,
    MessagePosted,
    ModelCalled,
    OpaqueData,
    Part,
    ParticipantAdded,
    ParticipantRemoved,
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
    text_of,
)

MAX_EXCERPT_CHARS: Final = 300
"""Characters that are kept of what a message, a model or a tool said."""

MAX_WORD_CHARS: Final = 120
"""Characters that are kept of a name that is free text: a model, a tool, an error's kind."""

MAX_FAULT_CHARS: Final = 1_000
"""Characters that are kept of an error's message."""

MAX_ITEMS: Final = 64
"""Steps, reasons, voters or participants that are kept of one event."""

MAX_ARGUMENTS: Final = 16
"""Arguments that are kept of one call of a tool."""

MAX_ARGUMENT_CHARS: Final = 60
"""Characters that are kept of one of them."""

MAX_TOKENS: Final = 10**12
"""Tokens that one call may count; what an event says beyond it is cut to this."""

_JSON: Final = msgspec.json.Encoder()


class Excerpt(NamedTuple):
    """The start of a text, and how long all of it is."""

    text: str
    chars: int


def ns(value: int) -> int:
    """Return *value* as a time or duration that arithmetic and JSON can carry."""
    return min(value, LAST_NS)


def cut(text: str, limit: int = MAX_EXCERPT_CHARS) -> Excerpt:
    """Return the start of *text*, at most *limit* characters."""
    return Excerpt(text if len(text) <= limit else text[:limit], len(text))


def cut_parts(parts: Sequence[Part], limit: int = MAX_EXCERPT_CHARS) -> Excerpt:
    """Return the start of the text of *parts*, at most *limit* characters."""
    return cut(text_of(parts), limit)


def fault(error: ErrorInfo) -> Fault:
    """Return *error* with its texts cut."""
    return Fault(cut(error.kind, MAX_WORD_CHARS).text, cut(error.message, MAX_FAULT_CHARS).text)


def model_step(
    seq: int, at: int, event: Event, data: ModelCalled, limit: int = MAX_EXCERPT_CHARS
) -> ModelStep:
    """Return a model call as a step."""
    text, chars = cut_parts(data.output, limit)
    return ModelStep(
        seq=seq,
        id=event.id,
        at=at,
        agent=event.sender,
        thread=event.thread,
        cause=event.cause,
        model=cut(data.model, MAX_WORD_CHARS).text,
        system=cut(data.system, MAX_WORD_CHARS).text,
        started_at=ns(data.started_at),
        duration_ns=ns(data.duration_ns),
        input_tokens=min(data.input_tokens, MAX_TOKENS),
        output_tokens=min(data.output_tokens, MAX_TOKENS),
        cached_tokens=min(data.cached_tokens, MAX_TOKENS),
        attempts=min(data.attempts, MAX_TOKENS),
        finish_reason=cut(data.finish_reason, MAX_WORD_CHARS).text,
        tool_calls=min(data.tool_calls, MAX_TOKENS),
        text=text,
        chars=chars,
        error=fault(data.error) if data.error else None,
    )


def tool_step(
    seq: int,
    at: int,
    event: Event,
    data: ToolCalled | ToolReturned,
    limit: int = MAX_EXCERPT_CHARS,
) -> ToolStep:
    """Return a tool call as a step, with what :func:`finish_tool` adds where it has returned."""
    step = ToolStep(
        seq=seq,
        id=event.id,
        at=at,
        agent=event.sender,
        thread=event.thread,
        cause=event.cause,
        tool=cut(data.tool, MAX_WORD_CHARS).text,
        call_id=cut(data.call_id, MAX_WORD_CHARS).text,
    )
    if isinstance(data, ToolReturned):
        finish_tool(step, data, limit)
    elif data.arguments is not None:
        step.arguments = call_text(data.arguments, max(limit // 5, MAX_ARGUMENT_CHARS))
    return step


def call_text(arguments: object, limit: int = MAX_ARGUMENT_CHARS) -> str:
    """Return the arguments of a call as a person would write them, each cut to what tells it."""
    if not isinstance(arguments, dict):
        return cut(_JSON.encode(arguments).decode()).text
    shown: list[str] = []
    for name, value in list(cast("dict[str, object]", arguments).items())[:MAX_ARGUMENTS]:
        text = _JSON.encode(value).decode()
        if len(text) > limit:
            text = f"{text[: limit - 1]}…"
        shown.append(f"{cut(name, MAX_ARGUMENT_CHARS).text}={text}")
    return ", ".join(shown)


def finish_tool(step: ToolStep, data: ToolReturned, limit: int = MAX_EXCERPT_CHARS) -> None:
    """Add to a tool call what it returned."""
    step.returned = True
    step.duration_ns = ns(data.duration_ns)
    step.text, step.chars = cut_parts(data.parts, limit)
    step.error = fault(data.error) if data.error else None


def failure_step(
    seq: int, at: int, event: Event, data: HandlingFailed | MentionDeadLettered
) -> FailureStep:
    """Return a failed attempt, or the end of all attempts, as a step."""
    if isinstance(data, HandlingFailed):
        attempt, retry_in_ns = data.attempt, data.retry_in_ns
    else:
        attempt, retry_in_ns = data.attempts, None
    return FailureStep(
        seq=seq,
        id=event.id,
        at=at,
        agent=event.sender,
        thread=event.thread,
        cause=event.cause,
        attempt=ns(attempt),
        error=fault(data.error),
        retry_in_ns=None if retry_in_ns is None else ns(retry_in_ns),
        gave_up=isinstance(data, MentionDeadLettered),
    )


def said_step(seq: int, at: int, event: Event, limit: int = MAX_EXCERPT_CHARS) -> SaidStep:
    """Return any other event as a step."""
    content = _content(event.data)
    said = content.text
    text, chars = cut(said, limit) if isinstance(said, str) else cut_parts(said, limit)
    item_chars = MAX_WORD_CHARS if limit <= MAX_EXCERPT_CHARS else limit
    return SaidStep(
        seq=seq,
        id=event.id,
        at=at,
        agent=event.sender,
        thread=event.thread,
        cause=event.cause,
        type=cut(event.type, MAX_WORD_CHARS).text,
        to=event.addressees,
        text=text,
        chars=chars,
        about=content.about,
        verdict=content.verdict,
        items=tuple([cut(item, item_chars).text for item in content.items[:MAX_ITEMS]]),
    )


class _Content(NamedTuple):
    """What an event says, not cut yet."""

    text: str | Sequence[Part] = ""
    about: str = ""
    verdict: str = ""
    items: Sequence[str] = ()


_of = _Content


def _content(data: AnyData) -> _Content:
    match data:
        case MessagePosted():
            return _of(data.parts)
        case AssignmentMade():
            return _of(data.title or data.parts, data.assignee, data.mode.value)
        case AssignmentFinished():
            return _of(data.parts, data.assignment)
        case AssignmentFailed():
            return _of(f"{data.error.kind}: {data.error.message}", data.assignment)
        case AssignmentProgressed():
            done = "" if data.fraction is None else f"{data.fraction:.0%}"
            return _of(data.note, data.assignment, done)
        case AssignmentAccepted():
            return _of(data.note, data.assignment)
        case AssignmentCancelled():
            return _of(data.reason, data.assignment)
        case VoteCast():
            return _of("", data.proposal, data.verdict.value, data.reasons)
        case CritiqueGiven():
            return _of("", data.of, data.verdict.value, data.reasons)
        case PlanProposed():
            return _of("; ".join(data.reasons[:MAX_ITEMS]), items=_plan(data))
        case PlanRevised():
            return _of("; ".join(data.reasons[:MAX_ITEMS]), data.replaces, items=_plan(data))
        case ArtifactAdded():
            return _of(data.name, items=(data.description,) if data.description else ())
        case AnswerSubmitted():
            return _of(data.parts, items=data.dissent)
        case ProposalMade():
            return _of(data.parts, items=data.voters)
        case ConsensusReached():
            return _of("", data.proposal, "reached", data.approvals)
        case ConsensusFailed():
            return _of(data.reason, data.proposal, "failed", data.rejections)
        case _:
            return _control(data)


def _control(data: AnyData) -> _Content:
    match data:
        case TaskOpened():
            return _of(data.parts or data.title, items=data.participants)
        case TaskStatusChanged():
            return _of(data.note, verdict=data.status.value)
        case TaskClosed():
            return _of(data.summary, data.answer or "", data.outcome.value)
        case TaskForked():
            return _of(data.origin.edit, data.origin.task, data.status.value, data.notes)
        case InputRequested():
            return _of(data.parts)
        case InputGiven():
            return _of(data.parts, data.request)
        case ThreadOpened():
            return _of(data.title, items=data.participants)
        case ThreadClosed():
            return _of(data.summary, verdict=data.outcome.value)
        case ThreadStateChanged():
            return _of(data.reason, verdict=data.state.value, items=data.next_speakers)
        case ParticipantAdded():
            return _of("", data.participant)
        case ParticipantRemoved():
            return _of(data.reason, data.participant)
        case AgentThrottled():
            limit = f"{data.allowed:,} {data.limit}".replace("_", " ")
            by = (f"set by {data.set_by}",) if data.set_by else ()
            return _of(data.reason, data.agent, data.action.value, (limit, *by))
        case OpaqueData():
            return _of(data.raw[: 4 * MAX_EXCERPT_CHARS].decode("utf-8", "replace"))
        case _:
            return _of()


def _plan(data: PlanProposed | PlanRevised) -> list[str]:
    return [
        f"{step.title} ({step.assignee})" if step.assignee else step.title
        for step in data.steps[:MAX_ITEMS]
    ]


def artifact(seq: int, event: Event, data: ArtifactAdded) -> Artifact:
    """Return an artifact with its size, wherever its bytes are."""
    part = data.part
    sha256 = ""
    match part:
        case ReferencePart():
            size, sha256 = min(part.size, LAST_NS), part.sha256
        case FilePart():
            size = len(part.content)
        case TextPart():
            size = len(part.text.encode("utf-8", "replace"))
        case DataPart():
            size = len(_JSON.encode(part.data))
        case _:
            assert_never(part)
    return Artifact(
        seq=seq,
        name=data.name,
        made_by=event.sender,
        media_type=cut(part.media_type, MAX_WORD_CHARS).text,
        size=size,
        sha256=sha256,
    )
