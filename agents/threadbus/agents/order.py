"""In order within a thread, also among replicas: the log says whose turn it is."""

from __future__ import annotations

from typing import Final

from threadbus.bus import Bus, BusError, SteadyLog, is_pause
from threadbus.schemas import (
    Event,
    EventClass,
    HandlingEnded,
    HandlingFailed,
    Lane,
    MentionDeadLettered,
    MessagePosted,
    Recorded,
)

_log: Final = SteadyLog("threadbus.agents")


async def is_its_turn(bus: Bus, event: Event, seq: int) -> bool:
    """Whether every earlier mention of this agent in the thread is settled in the log."""
    waiting: set[str] = set()
    settled: set[str] = set()
    try:
        async for entry in bus.read(event.task, event.thread):
            if not isinstance(entry, Recorded):
                continue
            other = entry.event
            if other.sender == bus.name and other.cause is not None and _settles(other):
                settled.add(other.cause)
            elif entry.seq < seq and bus.name in other.addressees and _keeps_order(other):
                waiting.add(other.id)
    except (BusError, TimeoutError) as error:
        _log.warning("could not see whose turn it is", reason=str(error))
        return False
    return waiting - settled <= {event.id}


def _keeps_order(event: Event) -> bool:
    quick = isinstance(event.data, MessagePosted) and event.data.lane is Lane.QUICK
    # A pause waits beside its thread.
    return event.event_class is not EventClass.OBS and not quick and not is_pause(event)


def _settles(event: Event) -> bool:
    if isinstance(event.data, HandlingFailed):
        return event.data.retry_in_ns is None
    return isinstance(event.data, HandlingEnded | MentionDeadLettered)
