"""Events of a thread: who takes part, what state the conversation is in, how it ended."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from threadbus.schemas.bounds import Name, Note, Participants, Positive, Title
from threadbus.schemas.events.base import EventClass, EventData


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


class ThreadClosed(EventData, frozen=True, kw_only=True):
    """End the thread; whoever waits in it is woken."""

    TYPE: ClassVar = "thread.closed"
    CLASS: ClassVar = EventClass.CTL

    summary: Note = ""
    outcome: ThreadOutcome = ThreadOutcome.CONCLUDED
