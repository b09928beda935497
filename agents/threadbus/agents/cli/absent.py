"""Say who is awaited in a super-task and is not living, so that nobody waits in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from threadbus.agents.cli.shell import Shell
from threadbus.bus import Bus, BusError
from threadbus.schemas import (
    AgentName,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    MentionDeadLettered,
)

_LOOK_EVERY_S: Final = 3.0


class Absent:
    """Who was mentioned, has not done with it, and has no heartbeat any more."""

    def __init__(self, shell: Shell, bus: Bus, told: Iterable[str] = ()) -> None:
        """Take nothing in yet.

        Args:
            shell: where it is said.
            bus: the bus.
            told: of whom it was said already.
        """
        self._shell = shell
        self._bus = bus
        self._told = set(told)
        self._owed: dict[AgentName, set[EventId]] = {}

    def take(self, event: Event) -> None:
        """Take in an event of the super-task."""
        for name in event.mentions:
            if name != self._bus.name and event.event_class is not EventClass.OBS:
                self._owed.setdefault(AgentName(name), set()).add(event.id)
        owed = self._owed.get(event.sender)
        is_end = isinstance(event.data, HandlingEnded | MentionDeadLettered)
        if owed and event.cause and (is_end or event.event_class is not EventClass.OBS):
            owed.discard(event.cause)

    async def watch(self) -> None:
        """Look every few seconds; never returns.

        Cancellation: safe.
        """
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            awaited = {name for name, owed in self._owed.items() if owed}
            if not awaited:
                continue
            try:
                living = {agent.name for agent in await self._bus.registry.living()}
            except (BusError, TimeoutError):
                # The server is away; that is in the log, and says nothing of the agents.
                continue
            self._tell(awaited - living, living)

    def _tell(self, gone: set[AgentName], living: set[AgentName]) -> None:
        for name in sorted(gone - self._told):
            self._shell.note(
                f"{name} is not living now; what it was asked waits until it is started again, "
                "with `bus run`",
                "yellow",
            )
        for back in sorted(self._told & living):
            self._shell.note(f"{back} is living again", "dim")
        self._told = (self._told | gone) - living
