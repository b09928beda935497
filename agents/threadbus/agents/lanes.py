"""Which mention is handled when: in order within a thread, threads side by side up to a limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_Key = tuple[str, str]


class Lanes(Generic[_T]):
    """Queues, one for each thread, worked off by at most *limit* tasks at once.

    Owned by a TaskGroup; what a worker raises ends the group.
    """

    def __init__(
        self, tasks: asyncio.TaskGroup, limit: int, work: Callable[[_T], Awaitable[None]], name: str
    ) -> None:
        self._group = tasks
        self._work = work
        self._name = name
        self._free: Final = asyncio.Semaphore(limit)
        self._waiting: dict[_Key, deque[_T]] = {}
        self._running: dict[_T, asyncio.Task[None]] = {}
        self._stopped = False

    @property
    def running(self) -> list[_T]:
        """What is being worked on."""
        return list(self._running)

    @property
    def depth(self) -> int:
        """How many wait."""
        return sum(len(queue) for queue in self._waiting.values())

    def waiting(self) -> list[_T]:
        """Return what waits, in no order across threads."""
        return [item for queue in self._waiting.values() for item in queue]

    def put(self, key: _Key, item: _T) -> bool:
        """Add *item* to the lane of *key*; return whether it starts at once."""
        queue = self._waiting.get(key)
        if queue is not None:
            queue.append(item)
            return False
        self._waiting[key] = deque([item])
        at_once = not self._free.locked()
        self._group.create_task(self._drive(key), name=f"{self._name}[{key[0][:8]}/{key[1]}]")
        return at_once

    async def _drive(self, key: _Key) -> None:
        queue = self._waiting[key]
        try:
            while queue and not self._stopped:
                async with self._free:
                    if self._stopped:
                        return
                    item = queue.popleft()
                    task = asyncio.current_task()
                    if task is not None:
                        self._running[item] = task
                    try:
                        await self._work(item)
                    finally:
                        self._running.pop(item, None)
        finally:
            self._waiting.pop(key, None)

    def stop(self) -> list[_T]:
        """Start nothing more; return what had not started."""
        self._stopped = True
        left = self.waiting()
        self._waiting.clear()
        return left

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks that work on something now."""
        return set(self._running.values())
