"""Pauses of conversations: the mention that a pause is waits in the inbox until it is over.

It is handled beside the thread, since those who do the work may ask something meanwhile. Nothing is
acknowledged before the wake is in the log, so a process that dies leaves the pause to the next one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from threadbus.bus import Bus, BusError, Delivery, SteadyLog, is_pause
from threadbus.schemas import EventId, HandlingEnded, Recorded, SchemaError

_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_log: Final = SteadyLog("threadbus.agents")


class Pauses:
    """The pauses that one running agent is to be woken from."""

    def __init__(self, bus: Bus, replica: str) -> None:
        self._bus = bus
        self._replica = replica
        self._held: dict[EventId, list[Delivery]] = {}
        self._watches: set[asyncio.Task[None]] = set()

    def take(self, delivery: Delivery, tasks: asyncio.TaskGroup) -> bool:
        """Take a mention if it is a pause of this agent; return whether it is."""
        event = delivery.event
        if not is_pause(event) or event.sender != self._bus.name:
            return False
        held = self._held.get(event.id)
        if held is not None:
            # A lease or the server was lost meanwhile: the same wait goes on.
            held.append(delivery)
            return True
        self._held[event.id] = [delivery]
        name = f"threadbus.agent[{self._bus.name}].pause[{event.thread}]"
        watch = tasks.create_task(self._watch(delivery.recorded), name=name)
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return True

    async def extend(self) -> None:
        """Extend the leases."""
        for deliveries in list(self._held.values()):
            for delivery in deliveries:
                await delivery.in_progress()

    def stop(self) -> None:
        """Give the pauses back: whoever runs the agent next takes them up."""
        for watch in self._watches:
            watch.cancel()

    async def _watch(self, pause: Recorded) -> None:
        event = pause.event
        received_at = time.time_ns()
        try:
            await self._wake(pause)
            now = time.time_ns()
            await self._bus.append(
                HandlingEnded(
                    received_at=received_at, started_at=now, ended_at=now, replica=self._replica
                ),
                task=event.task,
                thread=event.thread,
                cause=event.id,
            )
        except (BusError, SchemaError) as error:
            _log.warning("a pause goes back", event_id=event.id, reason=str(error))
            for delivery in self._held.pop(event.id, []):
                await delivery.nak()
        except asyncio.CancelledError:
            for delivery in self._held.pop(event.id, []):
                await delivery.nak()
            raise
        else:
            for delivery in self._held.pop(event.id, []):
                await delivery.ack()

    async def _wake(self, pause: Recorded) -> None:
        wait = _FIRST_WAIT_S
        while True:
            try:
                await self._bus.conversations.wake(pause)
            except (BusError, TimeoutError) as error:
                _log.warning("a pause cannot end yet", event_id=pause.event.id, reason=ascii(error))
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)
