"""Presence: a heartbeat now and then, and at once when an agent becomes busy or idle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Final

import msgspec

from threadbus.bus import Bus, BusError, SteadyLog
from threadbus.schemas import AgentName, Event, Presence, PresenceState, clean_text, text_of

_AT_MOST_EVERY_S: Final = 1.0
_PREDECESSOR_LOOK_S: Final = 0.1
_MAX_LINE_CHARS: Final = 200
_MAX_TITLE_CHARS: Final = 60
_log: Final = SteadyLog("threadbus.agents")


class Heartbeat:
    """Says that one instance is living and what it does."""

    def __init__(
        self,
        bus: Bus,
        agent: AgentName,
        instance: str,
        holder: str,
        look: Callable[[], tuple[PresenceState, str, int]],
    ) -> None:
        """Prepare to beat.

        Args:
            bus: where to.
            agent: the agent's name.
            instance: this process.
            holder: who holds the name.
            look: returns state, what the agent is busy with, and how many mentions wait.
        """
        self._bus = bus
        self._look = look
        self._beat = Presence(
            agent=agent,
            instance=instance,
            holder=holder,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=time.time_ns(),
        )
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Beat soon: the state is another one now."""
        self._changed.set()

    async def once(self) -> None:
        """Beat now."""
        state, busy_with, depth = self._look()
        beat = msgspec.structs.replace(
            self._beat, state=state, busy_with=busy_with, queue_depth=depth, at=time.time_ns()
        )
        await self._bus.registry.beat(beat)

    async def run(self) -> None:
        """Beat until cancelled; a beat that fails is made up for by the next one."""
        interval = self._bus.settings.presence_ttl.total_seconds() / 3
        pause = min(_AT_MOST_EVERY_S, interval / 2)
        while True:
            try:
                await self.once()
            except (BusError, TimeoutError) as error:
                _log.warning("no heartbeat", agent=self._beat.agent, reason=str(error))
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(interval - pause):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()

    async def leave(self) -> None:
        """Say that this instance is gone, instead of letting its heartbeat run out."""
        await self._bus.registry.leave(self._beat.agent, self._beat.instance)


async def wait_for_predecessor(bus: Bus, agent: AgentName, holder: str) -> None:
    """Let whoever was replaced finish what it has begun, so that nothing is begun twice."""
    limit = bus.settings.drain_timeout + bus.settings.presence_ttl
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit.total_seconds()):
            while True:
                if not await bus.registry.rivals(agent, holder):
                    return
                await asyncio.sleep(_PREDECESSOR_LOOK_S)


def title_of(event: Event) -> str:
    """Return what an agent is at that handles *event*, quoted, for people."""
    title = getattr(event.data, "title", "") or text_of(getattr(event.data, "parts", ()))
    line = title.strip()[:_MAX_LINE_CHARS].split("\n", 1)[0]
    return repr(clean_text(line, _MAX_TITLE_CHARS) or event.type)
