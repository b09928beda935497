"""Whose word in a thread counts, for whoever reads the log of a super-task.

The guard keeps honest clients from speaking where they do not take part; what another one puts
into the log past it is left out here, as every wait does.
"""

from __future__ import annotations

from contextlib import aclosing

from threadbus.bus import Bus, Entry, TaskState
from threadbus.schemas import Recorded, TaskId, ThreadId


class Counting:
    """Folds a super-task, or one thread of it, from its beginning, and says what counts."""

    def __init__(self, task: TaskId) -> None:
        self._state = TaskState(task=task)

    def counts(self, entry: Entry) -> bool:
        """Take the next entry; return whether it is an event of somebody who takes part.

        An id counts once: what comes again under it is passed over.
        """
        return isinstance(entry, Recorded) and self._state.apply(entry)


async def counted(bus: Bus, task: TaskId, thread: ThreadId, after: int = 0) -> list[Recorded]:
    """Read what counts in a thread.

    Args:
        bus: reads.
        task: the super-task.
        thread: the thread in it.
        after: only what is later than this sequence; who takes part is read from the beginning.

    Cancellation: safe.
    """
    counting = Counting(task)
    async with aclosing(bus.read(task, thread)) as entries:
        return [
            entry
            async for entry in entries
            if counting.counts(entry) and isinstance(entry, Recorded) and entry.seq > after
        ]
