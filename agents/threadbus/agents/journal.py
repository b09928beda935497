"""What an agent appended while it handled one mention, found again after a crash.

Every event of a turn has an id derived from the mention, the agent and a place in the turn. On a
redelivery the turn runs again and reaches the same places: what stands in the log already is
taken from there instead of being appended a second time.
"""

from __future__ import annotations

from typing import TypeVar

from threadbus.bus import Appended, Bus
from threadbus.schemas import (
    AgentName,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    Recorded,
    derive_event_id,
)

_T = TypeVar("_T")


class Journal:
    """The events of one turn, by their derived ids."""

    def __init__(self, bus: Bus, mention: Recorded, agent: AgentName) -> None:
        self._bus = bus
        self._mention = mention
        self._agent = agent
        self._known: dict[EventId, Recorded] = {}
        self._next = 0
        self.attempts = 0
        """Attempts that the log knows of."""
        self.is_settled = False
        """Whether the turn ended before: finished, or given up."""

    async def load(self) -> None:
        """Read what the agent appended in answer to this mention so far."""
        event = self._mention.event
        async for entry in self._bus.read(event.task, after=self._mention.seq):
            if not isinstance(entry, Recorded):
                continue
            own = entry.event
            if own.cause != event.id or own.sender != self._agent:
                continue
            self._known.setdefault(own.id, entry)
            match own.data:
                case HandlingStarted() as data:
                    self.attempts = max(self.attempts, data.attempt)
                case HandlingFailed() as data:
                    self.attempts = max(self.attempts, data.attempt)
                case HandlingEnded() | MentionDeadLettered():
                    self.is_settled = True
                case _:
                    pass

    def restart(self) -> None:
        """Begin at the first place again, for the next attempt."""
        self._next = 0

    def next_id(self) -> EventId:
        """Return the id of the next event of the turn."""
        self._next += 1
        return self.id_of(self._next - 1)

    def id_of(self, place: int | str) -> EventId:
        """Return the id of the event at a place of the turn."""
        return derive_event_id(self._mention.event.id, self._agent, place)

    def find(self, event_id: EventId) -> Appended | None:
        """Return the event of that id, if it is in the log already."""
        entry = self._known.get(event_id)
        return None if entry is None else Appended(entry.seq, entry.event, duplicate=True)

    def note(self, appended: Appended) -> Appended:
        """Remember what was just appended, so that the next attempt finds it."""
        self._known[appended.event.id] = Recorded(appended.seq, appended.event)
        return appended
