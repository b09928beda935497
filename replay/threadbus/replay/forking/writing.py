"""Writing a fork: copies first, its end last; done again after a crash it goes on where it was."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import msgspec

from threadbus.bus import Bus, TaskState
from threadbus.replay.forking.plan import ForkPlan
from threadbus.schemas import ContextUsed, Event, EventId, Recorded


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    copied: int
    """Copies that were appended now."""
    found: int
    """Copies that were there already, from an attempt that broke off."""
    seq: int
    """The sequence of ``task.forked``."""
    was_whole: bool
    """Whether the fork was whole before."""


async def write_fork(
    bus: Bus, plan: ForkPlan, progress: Callable[[int], None] = lambda count: None
) -> Written:
    """Write what is not in the log of the fork yet.

    Raises:
        AppendError: an event was refused; what was written before stays, marked as half a fork.
        ReadError: the server refused or did not answer.

    Cancellation: the fork stays half; write it again with the same plan.
    """
    there: dict[EventId, int] = {}
    state = TaskState(task=plan.task)
    async for entry in bus.read(plan.task):
        if isinstance(entry, Recorded):
            there.setdefault(entry.event.id, entry.seq)
            state.apply(entry)
    if state.is_fork_whole:
        return Written(copied=0, found=len(there), seq=there[plan.last.id], was_whole=True)
    places: list[tuple[int, int]] = []
    copied = found = 0
    for count, event in enumerate(plan.copies, 1):
        seq = there.get(event.id)
        if seq is None:
            seq = (await bus.forks.append(_placed(event, places))).seq
            copied += 1
        else:
            found += 1
        origin = event.copy_of
        places.append((0 if origin is None else origin.seq, seq))
        progress(count)
    last = await bus.forks.append(plan.last)
    return Written(copied=copied, found=found, seq=last.seq, was_whole=False)


def _placed(event: Event, places: list[tuple[int, int]]) -> Event:
    """Say in places of the fork's log what speaks of places of the other one."""
    data = event.data
    if not isinstance(data, ContextUsed):
        return event
    index = bisect_right(places, (data.up_to_seq, 1 << 63))
    seq = places[index - 1][1] if index else 0
    return msgspec.structs.replace(event, data=msgspec.structs.replace(data, up_to_seq=seq))
