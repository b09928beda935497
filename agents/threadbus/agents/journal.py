"""What an agent appended while it handled one mention, found again after a crash.

Every event of a turn has an id derived from the mention, the agent and a place in the turn. On a
redelivery the turn runs again and reaches the same places: what stands in the log already is
taken from there instead of being appended a second time.
"""

from __future__ import annotations

import time
from typing import Final

from threadbus.agents.errors import TurnOverError
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

ABORTED: Final = "Aborted"
"""The kind of error of an attempt that ended because the agent was stopped."""

_TRUSTED_FOR_S: Final = 60.0
"""Half of the time for which the log itself refuses an id that it has already."""


class Journal:
    """The events of one turn, by their derived ids."""

    def __init__(self, bus: Bus, mention: Recorded, agent: AgentName) -> None:
        self._bus = bus
        self._mention = mention
        self._agent = agent
        self._known: dict[EventId, Recorded] = {}
        self._places: Places | None = None
        self._known_at = time.monotonic()
        self.attempts = 0
        """Attempts that the log knows of."""
        self.aborted = 0
        """How many of them only ended because the agent was stopped."""
        self.is_settled = False
        """Whether the turn ended before: finished, or given up."""

    async def load(self) -> None:
        """Read what the agent appended in answer to this mention so far."""
        event = self._mention.event
        aborted: set[int] = set()
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
                    if data.error.kind == ABORTED:
                        aborted.add(data.attempt)
                case HandlingEnded() | MentionDeadLettered():
                    self.is_settled = True
                case _:
                    pass
        self.aborted = len(aborted)
        self._known_at = time.monotonic()

    async def refresh(self) -> None:
        """Read again where so much time has gone by that the log would take an id twice."""
        if time.monotonic() - self._known_at > _TRUSTED_FOR_S:
            await self.load()

    def begin(self) -> Places:
        """Begin at the first place, for the next attempt; the one before can append no more."""
        if self._places is not None:
            self._places.is_over = True
        self._places = Places(self)
        return self._places

    def end(self) -> None:
        """Let the attempt append no more, should its handler still run."""
        if self._places is not None:
            self._places.is_over = True

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


class Places:
    """The places of one attempt, counted as its handler reaches them."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.is_over = False
        self._next = 0

    def next_id(self) -> EventId:
        """Return the id of the next event of the turn.

        Raises:
            TurnOverError: the attempt has ended; its handler ran on all the same.
        """
        if self.is_over:
            raise TurnOverError
        self._next += 1
        return self.journal.id_of(self._next - 1)
