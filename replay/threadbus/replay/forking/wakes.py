"""Which mentions were open at a point of a log: their agents have to be woken again in a fork."""

from __future__ import annotations

from collections.abc import Iterable

from threadbus.bus import TaskState
from threadbus.schemas import (
    AgentName,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    Recorded,
)


class Turns:
    """What agents said of the mentions that they handled."""

    def __init__(self, whole: Iterable[Recorded]) -> None:
        """Learn from the whole log who says when a turn ends: not every agent does."""
        self._tell_ends: set[AgentName] = set()
        self._work: set[AgentName] = set()
        for item in whole:
            event = item.event
            if event.event_class is EventClass.OBS and event.cause is not None:
                self._work.add(event.sender)
            if isinstance(event.data, HandlingEnded):
                self._tell_ends.add(event.sender)
        self._settled: set[tuple[EventId, AgentName]] = set()
        self._answered: set[tuple[EventId, AgentName]] = set()

    def take(self, event: Event) -> None:
        """Take the next event before the point."""
        if event.cause is None:
            return
        data = event.data
        over = isinstance(data, HandlingFailed) and data.retry_in_ns is None
        if over or isinstance(data, HandlingEnded | MentionDeadLettered):
            self._settled.add((event.cause, event.sender))
        elif event.event_class is not EventClass.OBS:
            self._answered.add((event.cause, event.sender))

    def is_open(self, mention: Event, agent: AgentName, state: TaskState) -> bool:
        """Whether *agent* still has to do with *mention*, as of the events that were taken."""
        key = (mention.id, agent)
        if mention.event_class is EventClass.OBS or key in self._settled:
            return False
        if key in self._answered and agent not in self._tell_ends:
            return False
        if agent == state.opened_by and agent not in self._work:
            # A person, who has no inbox.
            return False
        thread = state.threads.get(mention.thread)
        return thread is not None and thread.is_open and agent in thread.participants

    def is_begun_anew(self, event: Event, state: TaskState, mention: Event | None) -> bool:
        """Whether *event* says that a handler began which does not run in a fork."""
        return (
            isinstance(event.data, HandlingStarted)
            and mention is not None
            and self.is_open(mention, event.sender, state)
        )
