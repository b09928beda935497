"""Where a run comes from: a server, or a file that was exported from one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from threadbus.schemas import Recorded, Rejected, TaskId

if TYPE_CHECKING:
    # Reading a file should not take the time that importing the client takes.
    from threadbus.bus import Bus

LogItem: TypeAlias = Recorded | Rejected
"""An entry of the log: an event, or the report of one that cannot be read."""


_T = TypeVar("_T")


@asynccontextmanager
async def closing(items: AsyncIterator[_T]) -> AsyncGenerator[AsyncIterator[_T]]:
    """Close *items* when the context ends, if it can be closed.

    Leaving an ``async for`` early does not: what the iterator holds (a subscription, a file) would
    be let go at some later time.
    """
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


class TaskLine(NamedTuple):
    """One super-task in a list for a person."""

    task: TaskId
    title: str = ""
    opened_at: int = 0
    """Nanoseconds since the epoch; 0 when it is not known."""


class Source(Protocol):
    """A place that holds the logs of super-tasks."""

    @property
    def name(self) -> str:
        """What to call it in a message to a person."""
        ...

    def read(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task in log order, to its end.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Cancellation: safe.
        """
        ...

    def follow(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task and go on live, without an end where the source can grow.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Cancellation: safe; go on with the last sequence seen.
        """
        ...

    async def find(self, prefix: str) -> list[TaskId]:
        """Return the super-tasks whose id starts with *prefix*.

        Cancellation: safe.
        """
        ...

    async def newest(self, limit: int) -> list[TaskLine]:
        """Return the newest super-tasks, the newest first, at most *limit*.

        Cancellation: safe.
        """
        ...


class BusSource:
    """The super-tasks on a server.

    Args:
        bus: an open bus; whoever opened it closes it.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @property
    def name(self) -> str:
        """The URL of the server."""
        return self._bus.settings.url

    async def read(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task in log order, to its end.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Raises:
            ReadError: the server refused or did not answer.

        Cancellation: safe.
        """
        async with closing(self._bus.read(task, after=after)) as items:
            async for item in items:
                yield item

    async def follow(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task and go on live, without an end, a gap or a duplicate.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Raises:
            ReadError: the server refused or did not answer.

        Cancellation: safe; go on with the last sequence seen.
        """
        async with closing(self._bus.follow(task, after=after)) as items:
            async for item in items:
                yield item

    async def find(self, prefix: str) -> list[TaskId]:
        """Return the newest super-tasks whose id starts with *prefix*.

        Raises:
            ReadError: the server refused or did not answer.

        Cancellation: safe.
        """
        return list(await self._bus.find_tasks(prefix))

    async def newest(self, limit: int) -> list[TaskLine]:
        """Return the newest super-tasks, the newest first, at most *limit*.

        Raises:
            ReadError: the server refused or did not answer.

        Cancellation: safe.
        """
        return [
            TaskLine(summary.task, summary.title, summary.opened_at)
            for summary in await self._bus.tasks.list(limit=limit)
        ]
