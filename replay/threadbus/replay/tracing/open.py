"""What has begun and not ended yet: turns, tools and threads, until their spans are final."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.tracing.model import SpanEvent
from threadbus.schemas import AgentName, ErrorInfo, EventId, SpanId, ThreadId

MAX_LINKS: Final = 128
"""Links and events of one span at most, as OpenTelemetry's own limits have it; later ones are
left out."""

MAX_ASKED: Final = 1_024
"""Events of one open turn whose answers are looked for."""


class OpenTool(msgspec.Struct, kw_only=True, gc=False):
    """A tool that was called and has not returned."""

    id: EventId
    seq: int
    tool: str
    call_id: str
    agent: AgentName
    thread: ThreadId
    parent: SpanId
    start: int
    arguments: str | None = None


class OpenThread(msgspec.Struct, kw_only=True, gc=False):
    """A thread that is not closed."""

    thread: ThreadId
    start: int
    title: str = ""
    parent: ThreadId | None = None
    opened_in: SpanId | None = None
    """The turn that opened it."""


class OpenTurn(msgspec.Struct, kw_only=True):
    """A mention that is not known to be settled."""

    agent: AgentName
    mention: EventId
    span: SpanId
    thread: ThreadId
    seq: int
    asked_at: int = 0
    """By the server's clock; 0 when the mention is not in the log."""
    woken_by: AgentName | None = None
    asked: str = ""
    start: int = 0
    """0 as long as the agent has done nothing about it."""
    last: int = 0
    attempts: int = 0
    replica: str = ""
    queue_depth: int | None = None
    was_stored: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    has_called: bool = False
    error: ErrorInfo | None = None
    events: list[SpanEvent] = []
    replies: list[EventId] = []
    """What answers it had to what it asked."""
    said: list[EventId] = []
    tools: dict[str, OpenTool] = {}
    """By whose call it is, and its id."""

    @property
    def has_begun(self) -> bool:
        """Whether the agent has done anything about it."""
        return self.start > 0

    def touch(self, at: int) -> None:
        """Note that the agent worked on it at that time."""
        self.start = min(self.start or at, at)
        self.last = max(self.last, at)

    def note(self, event: SpanEvent) -> None:
        """Keep something that happened."""
        if len(self.events) < MAX_LINKS:
            self.events.append(event)
