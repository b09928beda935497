"""What a run leaves beside its turns: questions, assignments, votes, plans, artifacts, answers."""

from __future__ import annotations

import msgspec

from threadbus.schemas import AgentName, EventId, ThreadId


class InputRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A question to whoever opened the task."""

    id: EventId
    thread: ThreadId
    asked_by: AgentName
    asked_at: int
    text: str
    answered_by: AgentName | None = None
    answered_at: int | None = None
    answer: str = ""


class Assignment(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A piece of work given to one agent."""

    id: EventId
    thread: ThreadId
    made_by: AgentName
    assignee: AgentName
    made_at: int
    title: str = ""
    mode: str = ""
    state: str = "made"
    """``made``, ``accepted``, ``progressed``, ``finished``, ``failed`` or ``cancelled``."""
    fraction: float | None = None
    changed_at: int = 0


class Proposal(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something put to the vote."""

    id: EventId
    thread: ThreadId
    made_by: AgentName
    made_at: int
    text: str = ""
    voters: tuple[AgentName, ...] = ()
    quorum: int | None = None
    votes: dict[AgentName, str] = {}
    """The last vote of each voter."""
    result: str = ""
    """``reached``, ``failed``, or empty while it is open."""


class PlanItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a plan."""

    title: str
    assignee: str = ""
    detail: str = ""


class Plan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One version of a thread's plan."""

    id: EventId
    seq: int
    thread: ThreadId
    version: int
    """1 for the first plan of its thread, one more with each that follows."""
    made_by: AgentName
    made_at: int
    replaces: EventId | None = None
    steps: tuple[PlanItem, ...] = ()
    reasons: tuple[str, ...] = ()


class Artifact(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that outlives the conversation."""

    seq: int
    name: str
    made_by: AgentName
    media_type: str
    size: int
    """Bytes."""
    sha256: str = ""
    """Absent when the content is inside the event."""


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer to the task."""

    id: EventId
    seq: int
    submitted_by: AgentName
    at: int
    text: str
    chars: int
    sources: tuple[str, ...] = ()
    dissent: tuple[str, ...] = ()
