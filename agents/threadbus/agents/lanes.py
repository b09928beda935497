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

    A lane is there only while something is in it. Owned by a TaskGroup; what a worker raises ends
    the group.
    """

    def __init__(
        self, tasks: asyncio.TaskGroup, limit: int, work: Callable[[_T], Awaitable[None]], name: str
    ) -> None:
        self._group = tasks
        self._limit = limit
        self._work = work
        self._name = name
        self._free: Final = asyncio.Semaphore(limit)
        self._waiting: dict[_Key, deque[_T]] = {}
        self._running: dict[_T, asyncio.Task[None]] = {}
        self._resting: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._depth = 0

    @property
    def running(self) -> list[_T]:
        """What is being worked on."""
        return list(self._running)

    @property
    def depth(self) -> int:
        """How many wait."""
        return self._depth

    def put(self, key: _Key, item: _T) -> bool:
        """Add *item* to the lane of *key*; return whether it starts at once."""
        self._depth += 1
        queue = self._waiting.get(key)
        if queue is not None:
            queue.append(item)
            return False
        self._waiting[key] = deque([item])
        self._group.create_task(self._drive(key), name=f"{self._name}[{key[0][:8]}/{key[1]}]")
        # Not what the semaphore says: of several put at once none has taken its place yet.
        return len(self._waiting) - len(self._resting) <= self._limit

    def withdraw(self, key: _Key) -> list[_T]:
        """Take out what waits in the lane of *key*, in order."""
        queue = self._waiting.get(key)
        left = list(queue or ())
        if queue is not None:
            queue.clear()
        self._depth -= len(left)
        return left

    async def rest(self, seconds: float) -> bool:
        """Let others work while the lane that calls this waits.

        Returns:
            Whether to go on; False at a stop.
        """
        task = asyncio.current_task()
        if task is None or task not in self._running.values():
            raise RuntimeError("only what is worked on can rest")
        self._resting.add(task)
        self._free.release()
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass
        await self._free.acquire()
        self._resting.discard(task)
        return not self._stop.is_set()

    async def _drive(self, key: _Key) -> None:
        queue = self._waiting[key]
        try:
            while queue and not self._stop.is_set():
                await self._free.acquire()
                try:
                    if queue and not self._stop.is_set():
                        await self._one(queue.popleft())
                finally:
                    self._leave_place()
        finally:
            if self._waiting.get(key) is queue:
                del self._waiting[key]

    async def _one(self, item: _T) -> None:
        self._depth -= 1
        task = asyncio.current_task()
        if task is not None:
            self._running[item] = task
        try:
            await self._work(item)
        finally:
            self._running.pop(item, None)

    def _leave_place(self) -> None:
        task = asyncio.current_task()
        if task is not None and task in self._resting:
            # Cancelled while it rested: the place was given back before.
            self._resting.discard(task)
        else:
            self._free.release()

    def stop(self) -> list[_T]:
        """Start nothing more; return what had not started."""
        left = [item for key in list(self._waiting) for item in self.withdraw(key)]
        self._stop.set()
        return left

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks that work on something now."""
        return set(self._running.values())
