"""What was seen while the work was done; ``cause`` names the mention that was being handled."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from threadbus.schemas.bounds import (
    Count,
    DurationNs,
    Mentioned,
    Name,
    Note,
    Positive,
    TimeNs,
    Word,
)
from threadbus.schemas.events.base import ErrorInfo, EventClass, EventData, PartList


class MentionStored(EventData, frozen=True, kw_only=True):
    """Receipt by the sender: the mentioned agents are not living; the mention waits for them."""

    TYPE: ClassVar = "mention.stored"
    CLASS: ClassVar = EventClass.OBS

    agents: Mentioned


class MentionReceived(EventData, frozen=True, kw_only=True):
    """Receipt by a busy agent: the mention has arrived and waits behind other work."""

    TYPE: ClassVar = "mention.received"
    CLASS: ClassVar = EventClass.OBS

    queue_depth: Count = 0
    """Mentions that the agent holds ahead of this one."""
    busy_with: Note = ""


class HandlingStarted(EventData, frozen=True, kw_only=True):
    """A handler runs. Left out when it ends within its first moments (see ``handling.ended``)."""

    TYPE: ClassVar = "handling.started"
    CLASS: ClassVar = EventClass.OBS

    attempt: Positive = 1
    replica: Word = ""


class HandlingEnded(EventData, frozen=True, kw_only=True):
    """A handler ended and what it appended is in the log: one turn of the agent."""

    TYPE: ClassVar = "handling.ended"
    CLASS: ClassVar = EventClass.OBS

    received_at: TimeNs
    started_at: TimeNs
    ended_at: TimeNs
    attempt: Positive = 1
    replica: Word = ""


class HandlingFailed(EventData, frozen=True, kw_only=True):
    """A handler raised; it is tried again unless ``mention.dead_lettered`` follows."""

    TYPE: ClassVar = "handling.failed"
    CLASS: ClassVar = EventClass.OBS

    error: ErrorInfo
    attempt: Positive = 1
    retry_in_ns: DurationNs | None = None
    """How long until the next attempt; absent when there is none."""
    replica: Word = ""


class MentionDeadLettered(EventData, frozen=True, kw_only=True):
    """The agent gave a mention up; whoever asked is mentioned."""

    TYPE: ClassVar = "mention.dead_lettered"
    CLASS: ClassVar = EventClass.OBS

    error: ErrorInfo
    attempts: Count = 0


class ThrottleAction(StrEnum):
    """What happens to what goes over a limit."""

    HELD_BACK = "held_back"
    """It waits in the sender's own client and is refused there where it would wait too long."""
    UNANSWERED = "unanswered"
    """The mentioned agent does not answer it; each mention gets a dead letter."""
    MUTED = "muted"
    """The server takes nothing from the sender any more."""


class AgentThrottled(EventData, frozen=True, kw_only=True):
    """An agent went over a limit; the sender of the event is who holds it back."""

    TYPE: ClassVar = "agent.throttled"
    CLASS: ClassVar = EventClass.OBS

    agent: Name
    """Who is held back."""
    action: ThrottleAction
    limit: Word
    """Which one, by the name that the settings and the record of limits have for it."""
    allowed: Count
    seen: Count = 0
    """How much it was when it was noticed; at least."""
    set_by: Word = ""
    """Who set the limit; empty where it is a default."""
    set_at: TimeNs = 0
    until: TimeNs | None = None
    """When it ends by itself; absent where it ends with what caused it, or by hand."""
    reason: Note = ""


class ModelCalled(EventData, frozen=True, kw_only=True):
    """One call of a model, with what it cost."""

    TYPE: ClassVar = "model.called"
    CLASS: ClassVar = EventClass.OBS

    model: Word
    started_at: TimeNs
    duration_ns: DurationNs
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    estimated: bool = False
    """The server reported no usage: a token is counted for every four characters."""
    finish_reason: Word = ""
    streamed: bool = False
    first_token_ns: DurationNs | None = None
    attempts: Positive = 1
    response_id: Word = ""
    system: Word = ""
    """Who answered: the provider, or ``playbook`` when no model did."""
    tool_calls: Count = 0
    output: PartList = ()
    error: ErrorInfo | None = None


class ToolCalled(EventData, frozen=True, kw_only=True):
    """A tool is about to run."""

    TYPE: ClassVar = "tool.called"
    CLASS: ClassVar = EventClass.OBS

    call_id: Word
    tool: Word
    arguments: Any = None


class ToolReturned(EventData, frozen=True, kw_only=True):
    """A tool has run."""

    TYPE: ClassVar = "tool.returned"
    CLASS: ClassVar = EventClass.OBS

    call_id: Word
    tool: Word
    duration_ns: DurationNs
    parts: PartList = ()
    error: ErrorInfo | None = None


class ContextUsed(EventData, frozen=True, kw_only=True):
    """What a turn showed its model of the thread."""

    TYPE: ClassVar = "context.used"
    CLASS: ClassVar = EventClass.OBS

    up_to_seq: Count
    """The last sequence of the log that the context reached, inclusive."""
    events: Count = 0
    tokens: Count = 0
