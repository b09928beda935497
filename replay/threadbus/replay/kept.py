"""What a run leaves beside its turns: questions, assignments, votes, plans, artifacts, answers."""

from __future__ import annotations

import msgspec

from threadbus.schemas import AgentName, EventId, TaskId, ThreadId


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


class Fork(msgspec.Struct, kw_only=True, omit_defaults=True):
    """That the run begins with a copy of another one."""

    task: TaskId
    """The other one."""
    seq: int
    """The last sequence of its log that was copied."""
    copies: int = 0
    """Events of this log that are copies."""
    expected: int = 0
    """How many there are to be, where that is known."""
    edit: str = ""
    """What was said there instead of what the other one has."""
    forked_at: int | None = None
    """When the copy was whole and the run began to go its own way; absent while it is not."""
    forked_by: AgentName | None = None
    gap_ns: int = 0
    """From the last thing that was copied to the fork; no part of the duration."""
    woken: tuple[AgentName, ...] = ()
    """Who had not settled a mention at that point and was woken again."""
    notes: tuple[str, ...] = ()
    """What the copy could not take along."""


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
