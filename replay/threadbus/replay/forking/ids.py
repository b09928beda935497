"""The ids of copies: new, the same each time, and such that agents find their own work again.

An agent derives the id of what it says from the mention, its name and a place in the turn
(:func:`~threadbus.schemas.derive_event_id`). Where the id of an original is of that kind, its
copy gets the id that the agent would derive from the copy of the mention: when it is woken again
it takes what it had done from the log instead of doing it twice. Any other copy gets an id derived
from its original and the fork.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from threadbus.schemas import (
    AgentName,
    AnyData,
    Event,
    EventId,
    InputGiven,
    TaskId,
    derive_event_id,
)

MAX_PLACES_AHEAD: Final = 64
"""Places after the last one that was found which an event of a turn is looked for at."""

_WORDS: Final = ("reply", "close", "failed", "dead", "end", "forked")
_INPUT: Final = AgentName("input")
_REFERENCES: Final = ("replaces", "assignment", "of", "proposal", "request", "answer")
"""Fields of data that hold the id of an event."""


class CopyIds:
    """Original id → id of the copy, in the order of the log."""

    def __init__(self, fork: TaskId) -> None:
        self._fork = fork
        self._ids: dict[EventId, EventId] = {}
        self._next_place: dict[tuple[EventId, AgentName], int] = {}

    def find(self, original: EventId | None) -> EventId | None:
        """Return the copy's id; the original one where that is not copied."""
        return None if original is None else self._ids.get(original, original)

    def add(self, event: Event) -> EventId:
        """Return the id of the copy of *event*, whose cause comes before it in the log."""
        copied = self._derived(event) or derive_event_id(
            event.id, event.sender, f"fork:{self._fork}"
        )
        self._ids[event.id] = copied
        return copied

    def _derived(self, event: Event) -> EventId | None:
        cause = event.cause
        # What is derived from an event carries its time.
        if cause is None or cause not in self._ids or event.id[:12] != cause[:12]:
            return None
        agent = _INPUT if isinstance(event.data, InputGiven) else event.sender
        for word in _WORDS:
            if derive_event_id(cause, agent, word) == event.id:
                return derive_event_id(self._ids[cause], agent, word)
        start = self._next_place.get((cause, agent), 0)
        for place in range(start, start + MAX_PLACES_AHEAD):
            if derive_event_id(cause, agent, place) == event.id:
                self._next_place[cause, agent] = place + 1
                return derive_event_id(self._ids[cause], agent, place)
        return None

    def translate(self, data: AnyData) -> AnyData:
        """Return *data* with the ids of events in it replaced by those of their copies."""
        changes: dict[str, Any] = {}
        for name in _REFERENCES:
            value = getattr(data, name, None)
            if isinstance(value, str):
                changes[name] = self.find(EventId(value))
        sources = getattr(data, "sources", ())
        if sources:
            changes["sources"] = tuple([self.find(EventId(source)) for source in sources])
        return msgspec.structs.replace(data, **changes) if changes else data
