"""Which mention is handled when: in order within a thread, threads side by side up to a limit.

Most are handled within moments. Those are only begun, by a task of their own, and nobody watches:
a second task that waits for the first would cost each of them more than all the rest that is done
for it. A driver, which is a task that works a lane off, takes over where it takes longer, where it
did not end well, and where more waits in the lane.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

WATCHED_AFTER_S: Final = 0.05
"""What is not done after this gets a driver."""

_T = TypeVar("_T")

_Key = tuple[str, str]

Ended: TypeAlias = Callable[[bool], None]


def _never(_item: object, _ended: Ended) -> bool:
    return False


class Lanes(Generic[_T]):
    """Queues, one for each thread, of which at most *limit* are worked off at once.

    A lane is there only while something is in it. Drivers belong to a TaskGroup; what a worker
    raises ends the group.
    """

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        limit: int,
        work: Callable[[_T], Awaitable[None]],
        name: str,
        *,
        begin: Callable[[_T, Ended], bool] = _never,
    ) -> None:
        """Prepare lanes.

        Args:
            tasks: the drivers' group.
            limit: how many items are worked on at once.
            work: works on an item, also on one that was begun.
            name: of the drivers, for people.
            begin: begins an item without a driver and returns whether it did. It then says once
                whether the item is done; one that is not is handed to a driver.
        """
        self._group = tasks
        self._limit = limit
        self._work = work
        self._begin = begin
        self._name = name
        self._free: Final = asyncio.Semaphore(limit)
        self._waiting: dict[_Key, deque[_T]] = {}
        self._running: dict[_T, asyncio.Task[None]] = {}
        self._begun: dict[_T, tuple[_Key, float]] = {}
        """By what was begun: its lane and when, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._resting: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._depth = 0

    @property
    def running(self) -> list[_T]:
        """What is being worked on."""
        return [*self._running, *self._begun]

    @property
    def depth(self) -> int:
        """How many wait."""
        return self._depth

    async def put(self, key: _Key, item: _T) -> bool:
        """Add *item* to the lane of *key*; return whether it starts at once.

        Cancellation: safe; nothing is waited for.
        """
        queue = self._waiting.get(key)
        if queue is not None:
            self._depth += 1
            queue.append(item)
            return False
        self._waiting[key] = queue = deque[_T]()
        if not (self._free.locked() or self._stop.is_set()):
            await self._free.acquire()
            loop = asyncio.get_running_loop()
            # Before it begins: it may have ended when that returns.
            self._begun[item] = (key, loop.time())
            if self._timer is None:
                # It outlives what it was set for: each item would set one only to cancel it.
                self._timer = loop.call_later(WATCHED_AFTER_S, self._watch_old)
            if self._begin(item, partial(self._on_end, item)):
                return True
            del self._begun[item]
            self._free.release()
        self._depth += 1
        queue.append(item)
        self._drive_soon(key)
        # Not what the semaphore says: of several put at once none has taken its place yet.
        return len(self._waiting) - len(self._resting) <= self._limit

    def _on_end(self, item: _T, is_done: bool) -> None:
        """Take note that an item ended which was begun."""
        begun = self._begun.get(item)
        if begun is None:
            return
        if not is_done:
            self._watch(item)
            return
        key, _ = self._begun.pop(item)
        self._free.release()
        if self._waiting[key]:
            self._drive_soon(key)
        else:
            del self._waiting[key]

    def _watch_old(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for item, (_, since) in list(self._begun.items()):
            left_s = since + WATCHED_AFTER_S - loop.time()
            if left_s > 0:
                self._timer = loop.call_later(left_s, self._watch_old)
                return
            self._watch(item)

    def _watch(self, item: _T) -> None:
        """Hand an item that was begun to a driver, and its place with it."""
        key, _ = self._begun[item]
        if self._drive_soon(key, item):
            del self._begun[item]

    def _drive_soon(self, key: _Key, begun: _T | None = None) -> bool:
        name = f"{self._name}[{key[0][:8]}/{key[1]}]"
        drive = self._drive(key, begun)
        try:
            task = self._group.create_task(drive, name=name)
        except RuntimeError:
            # The group is being cancelled. What was begun is given up to its owner.
            drive.close()
            return False
        if begun is not None:
            self._running[begun] = task
        return True

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

    async def _drive(self, key: _Key, begun: _T | None = None) -> None:
        queue = self._waiting[key]
        try:
            if begun is not None:
                try:
                    await self._one(begun)
                finally:
                    self._leave_place()
            while queue and not self._stop.is_set():
                await self._free.acquire()
                try:
                    if queue and not self._stop.is_set():
                        self._depth -= 1
                        await self._one(queue.popleft())
                finally:
                    self._leave_place()
        finally:
            if self._waiting.get(key) is queue:
                del self._waiting[key]

    async def _one(self, item: _T) -> None:
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
        """Start nothing more; return what had not started. All that runs has a driver then."""
        left = [item for key in list(self._waiting) for item in self.withdraw(key)]
        self._stop.set()
        for item in list(self._begun):
            self._watch(item)
        return left

    def give_up(self) -> list[_T]:
        """Return what was begun and has no driver; it is the caller's from now on."""
        left = list(self._begun)
        self._begun.clear()
        if self._timer is not None:
            self._timer.cancel()
        return left

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks that work on something now."""
        return set(self._running.values())
