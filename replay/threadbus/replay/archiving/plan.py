"""Which super-tasks can leave the log, and up to when: worked out from control events alone."""

from __future__ import annotations

from collections.abc import AsyncIterable, Set
from typing import Final

import msgspec

from threadbus.bus import TaskState
from threadbus.schemas import Recorded, TaskId, TaskOpened

MAX_SHOWN: Final = 20


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A super-task that leaves the log."""

    task: TaskId
    title: str
    opened_at: int
    closed_at: int


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A super-task that keeps the log from being cut behind its beginning."""

    task: TaskId
    opened_at: int
    reason: str


class ArchivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would leave the log."""

    before: int
    """Everything stored before it leaves; nanoseconds since the epoch."""
    tasks: tuple[Archived, ...] = ()
    """Super-tasks that began before it, the oldest first: all of them have ended."""
    holding: tuple[Holding, ...] = ()
    """Those that kept it from being later, the oldest first."""


class _Seen(msgspec.Struct):
    opened_at: int
    state: TaskState | None
    """None once it has ended for good: many are kept in mind."""
    title: str = ""
    closed_at: int = 0


async def make_plan(
    controls: AsyncIterable[Recorded], *, before: int, waiting: Set[TaskId]
) -> ArchivePlan:
    """Find the latest time, at most *before*, behind which nothing is needed any more.

    A super-task is needed until it has ended and nobody has a mention of it left to take. One that
    is needed keeps everything since its beginning.

    Args:
        controls: what opens and ends super-tasks, of the whole log in its order.
        before: the latest time to cut at; nanoseconds since the epoch.
        waiting: super-tasks of which a mention waits.
    """
    seen: dict[TaskId, _Seen] = {}
    async for recorded in controls:
        task = recorded.event.task
        if task not in seen:
            if recorded.stored_at >= before or not isinstance(recorded.event.data, TaskOpened):
                # The rest of one whose beginning has left already, or one that stays as a whole.
                continue
            seen[task] = _Seen(recorded.stored_at, TaskState(task=task))
        one = seen[task]
        if one.state is None:
            continue
        one.state.apply(recorded)
        # A fork begins with copies, of an end perhaps.
        if not one.state.is_open and recorded.event.copy_of is None:
            one.title, one.closed_at, one.state = one.state.title, recorded.stored_at, None
    holding = [
        Holding(
            task=task,
            opened_at=one.opened_at,
            reason="a mention of it waits" if one.closed_at else "it has not ended",
        )
        for task, one in seen.items()
        if not one.closed_at or task in waiting
    ]
    cut = min([before, *(one.opened_at for one in holding)])
    tasks = [
        Archived(task=task, title=one.title, opened_at=one.opened_at, closed_at=one.closed_at)
        for task, one in seen.items()
        if one.opened_at < cut
    ]
    # The partitions of a log come one beside the other.
    tasks.sort(key=lambda one: one.opened_at)
    holding.sort(key=lambda one: one.opened_at)
    return ArchivePlan(before=cut, tasks=tuple(tasks), holding=tuple(holding[:MAX_SHOWN]))
