"""Events into what a model reads. Pure: the same event gives the same words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from threadbus.bus import LivingAgent, ThreadState
from threadbus.gateways.mcp.references import artifact_uri, thread_ref
from threadbus.gateways.mcp.results import AgentInfo, FileInfo, Message, ThreadInfo
from threadbus.gateways.text import cut_text
from threadbus.schemas import (
    AgentName,
    ArtifactAdded,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentMade,
    AssignmentProgressed,
    ConsensusFailed,
    ConsensusReached,
    CritiqueGiven,
    DataPart,
    Event,
    EventClass,
    FilePart,
    InputRequested,
    MentionDeadLettered,
    MessagePosted,
    Part,
    ParticipantAdded,
    ParticipantRemoved,
    Parts,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    ReferencePart,
    TaskClosed,
    TaskOpened,
    TaskStatusChanged,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    ThreadStateChanged,
    VoteCast,
)

MAX_TEXT_BYTES: Final = 32 * 1024
"""Bytes of the text of one message in a result; the rest is in the thread's resource."""

_REST: Final = "the thread's resource has all of it"


def agent_of(living: LivingAgent) -> AgentInfo:
    """Return an agent as a model reads it."""
    card = living.record.card
    beats = living.instances
    return AgentInfo(
        name=card.name,
        title=card.display_name,
        description=cut_text(card.description, 2000),
        skills=[skill.name for skill in card.skills],
        living=living.is_living,
        state=beats[0].state.value if beats else "",
        busy_with=next((beat.busy_with for beat in beats if beat.busy_with), ""),
    )


def thread_of(state: ThreadState) -> ThreadInfo:
    """Return a thread as a model reads it."""
    return ThreadInfo(
        thread_id=thread_ref(state.task, state.thread),
        task_id=state.task,
        title=state.title,
        creator=state.creator or "",
        participants=list(state.participants),
        state="open" if state.is_open else "closed",
        goal=state.goal,
        outcome=state.outcome,
        summary=state.summary,
    )


def message_of(event: Event, reader: AgentName | None = None) -> Message:
    """Return an event as a model reads it.

    Args:
        event: what was said.
        reader: who reads; where it is mentioned, the message says which tool answers it.
    """
    parts: Parts = getattr(event.data, "parts", ())
    text = says(event)
    return Message(
        message_id=event.id,
        thread_id=thread_ref(event.task, event.thread),
        type=event.type,
        sender=event.sender,
        at=time_of(event.at),
        text=cut_text(text, MAX_TEXT_BYTES, _REST),
        mentions=list(event.mentions),
        data=data_of(parts),
        files=files_of(parts),
        in_reply_to=event.cause or "",
        respond_with="" if reader is None else responds_with(event, reader),
    )


def is_shown(event: Event) -> bool:
    """Whether an event is part of a conversation; observations are not, but a dead letter is."""
    return event.event_class is not EventClass.OBS or isinstance(event.data, MentionDeadLettered)


def responds_with(event: Event, reader: AgentName) -> str:
    """Return the tool with which *reader* answers *event*; empty where nothing is expected."""
    if event.sender == reader or reader not in event.mentions:
        return ""
    match event.data:
        case ProposalMade():
            return "vote"
        case TaskOpened() | AssignmentMade() | InputRequested() | MessagePosted():
            return "reply"
        case _:
            return ""


def text_in(parts: Sequence[Part]) -> str:
    """Return the text parts, joined by newlines."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def data_of(parts: Sequence[Part]) -> list[Any]:
    """Return the JSON values."""
    return [part.data for part in parts if isinstance(part, DataPart)]


def files_of(parts: Sequence[Part]) -> list[FileInfo]:
    """Return the files, and what went to the object store because of its size."""
    files: list[FileInfo] = []
    for part in parts:
        if isinstance(part, FilePart):
            files.append(
                FileInfo(name=part.name, media_type=part.media_type, size=len(part.content))
            )
        elif isinstance(part, ReferencePart):
            files.append(
                FileInfo(
                    name=part.name,
                    media_type=part.media_type,
                    size=part.size,
                    uri=artifact_uri(part.sha256),
                )
            )
    return files


def time_of(nanoseconds: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    at = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def says(event: Event) -> str:
    """Return what an event says, as text."""
    match event.data:
        case TaskOpened() as data:
            return text_in(data.parts) or data.title
        case ThreadOpened() as data:
            goal = f": {data.goal}" if data.goal else ""
            return f"opened the thread '{data.title}'{goal}"
        case ParticipantAdded() as data:
            return f"added {data.participant}"
        case ParticipantRemoved() as data:
            return f"removed {data.participant}{_because(data.reason)}"
        case ThreadStateChanged() as data:
            return f"the conversation is now in {data.state.value}{_because(data.reason)}"
        case ThreadClosed() as data:
            return f"closed the thread ({data.outcome.value}){_because(data.summary)}"
        case TaskClosed() as data:
            return f"closed the super-task ({data.outcome.value}){_because(data.summary)}"
        case TaskStatusChanged() as data:
            return f"the super-task is {data.status.value}{_because(data.note)}"
        case ArtifactAdded() as data:
            return f"added the artifact '{data.name}'{_because(data.description)}"
        case PlanProposed() | PlanRevised() as data:
            steps = [
                f"{number}. {step.title}{f' ({step.assignee})' if step.assignee else ''}"
                for number, step in enumerate(data.steps, 1)
            ]
            return "\n".join(["plan:", *steps, *data.reasons])
        case AssignmentProgressed() as data:
            share = "" if data.fraction is None else f" ({data.fraction:.0%})"
            return f"{data.note}{share}"
        case AssignmentFailed() as data:
            return f"failed: {data.error.kind}: {data.error.message}"
        case AssignmentCancelled() as data:
            return f"cancelled the assignment{_because(data.reason)}"
        case MentionDeadLettered() as data:
            return f"could not handle it: {data.error.kind}: {data.error.message}"
        case CritiqueGiven() as data:
            return "\n".join([data.verdict.value, *data.reasons])
        case VoteCast() as data:
            return "\n".join([data.verdict.value, *data.reasons])
        case ConsensusReached() as data:
            return f"consensus: approved by {', '.join(data.approvals)}"
        case ConsensusFailed() as data:
            return f"no consensus: rejected by {', '.join(data.rejections)}{_because(data.reason)}"
        case data:
            parts: Parts | None = getattr(data, "parts", None)
            if parts is not None:
                return text_in(parts)
            return getattr(data, "note", "") or event.type


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
