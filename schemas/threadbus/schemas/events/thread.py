"""Events of a thread: who takes part, what state the conversation is in, how it ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from threadbus.schemas.bounds import (
    WAY_OUT,
    Count,
    HexId,
    Name,
    Note,
    Participants,
    Positive,
    TimeNs,
    Title,
)
from threadbus.schemas.events.base import EventClass, EventData
from threadbus.schemas.limits import MAX_TRIGGERS

Triggers = Annotated[
    tuple[HexId, ...],
    msgspec.Meta(
        max_length=MAX_TRIGGERS,
        extra={WAY_OUT: "assign coarser, and let those assigned form teams of their own"},
    ),
]


class ConversationState(StrEnum):
    """The state of a thread's conversation (Internet of Agents, section 2.3)."""

    DISCUSSION = "discussion"
    SYNC_ASSIGNMENT = "sync_assignment"
    ASYNC_ASSIGNMENT = "async_assignment"
    PAUSED = "paused"
    CONCLUSION = "conclusion"


class ThreadOutcome(StrEnum):
    """How a thread ended."""

    CONCLUDED = "concluded"
    ABANDONED = "abandoned"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ThreadOpened(EventData, frozen=True, kw_only=True):
    """Open a thread inside a super-task; the sender is a participant."""

    TYPE: ClassVar = "thread.opened"
    CLASS: ClassVar = EventClass.CTL

    title: Title
    participants: Participants = ()
    parent: Name = "main"
    """The thread that this one grew from."""
    goal: Note = ""
    max_turns: Positive | None = None
    """After so many messages and moves the conversation is to conclude."""
    max_members: Positive | None = None
    """How many may take part, the sender included."""
    max_depth: Count | None = None
    """How many levels of threads may grow below this one."""
    assignment: HexId | None = None
    """The sender's assignment in the parent thread; the conclusion is its result."""


class ParticipantAdded(EventData, frozen=True, kw_only=True):
    """Let an agent into the thread."""

    TYPE: ClassVar = "thread.participant_added"
    CLASS: ClassVar = EventClass.CTL

    participant: Name


class ParticipantRemoved(EventData, frozen=True, kw_only=True):
    """Take an agent out of the thread; what it said stays."""

    TYPE: ClassVar = "thread.participant_removed"
    CLASS: ClassVar = EventClass.CTL

    participant: Name
    reason: Note = ""


class ThreadStateChanged(EventData, frozen=True, kw_only=True):
    """Move the conversation to another state and say who speaks next."""

    TYPE: ClassVar = "thread.state_changed"
    CLASS: ClassVar = EventClass.CTL

    state: ConversationState
    next_speakers: Participants = ()
    reason: Note = ""
    triggers: Triggers = ()
    """The assignments that the sender waits for: it is woken when all of them have ended."""
    deadline_at: TimeNs | None = None
    """When it is woken at the latest."""
    wakes: HexId | None = None
    """The event with the triggers whose wait ends here."""


class ThreadClosed(EventData, frozen=True, kw_only=True):
    """End the thread; whoever waits in it is woken."""

    TYPE: ClassVar = "thread.closed"
    CLASS: ClassVar = EventClass.CTL

    summary: Note = ""
    outcome: ThreadOutcome = ThreadOutcome.CONCLUDED
