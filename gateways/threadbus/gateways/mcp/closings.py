"""Which threads of an agent have ended: what wakes a wait for mentions beside a mention.

The super-tasks that the agent has lately spoken or been mentioned in through this process are
followed. The end of a thread is told until a cursor acknowledges it, or the process forgets it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import msgspec

from threadbus.bus import Bus, BusError, SteadyLog, ThreadState
from threadbus.gateways.mcp.references import Place
from threadbus.schemas import MAIN_THREAD, Recorded, TaskId, ThreadId

MAX_FOLLOWED: Final = 32
"""Super-tasks that are followed for one agent; those it has not touched for longest go first."""

MAX_TOLD: Final = 256
_AGAIN_S: Final = 1.0
_log: Final = SteadyLog("threadbus.gateways.mcp")

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Starts a task that ends with its owner, under a name."""


class Closing(msgspec.Struct, frozen=True):
    """The end of a thread."""

    seq: int
    """Of the event that closed it."""
    state: ThreadState


class Closings:
    """The ends of threads that one agent takes part in."""

    def __init__(self, bus: Bus, spawn: Spawn, on_change: Callable[[], None]) -> None:
        """Prepare; nothing is followed before :meth:`soon`.

        Args:
            bus: speaks as the agent.
            spawn: starts what follows a super-task.
            on_change: called when a thread of the agent has opened or ended.
        """
        self._bus = bus
        self._spawn = spawn
        self._on_change = on_change
        self._followers: OrderedDict[TaskId, asyncio.Task[None]] = OrderedDict()
        self._told: OrderedDict[int, Closing] = OrderedDict()
        self._acknowledged: set[int] = set()
        self._changed: asyncio.Future[None] | None = None

    @property
    def changed(self) -> asyncio.Future[None]:
        """Done once another thread has ended."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def soon(self, task: TaskId) -> None:
        """Follow a super-task that the agent has just touched."""
        if task in self._followers:
            self._followers.move_to_end(task)
            return
        self._followers[task] = self._spawn(self._follow(task), f"threadbus.mcp.closings[{task}]")
        while len(self._followers) > MAX_FOLLOWED:
            self._followers.popitem(last=False)[1].cancel()

    async def look(self, place: Place) -> None:
        """Follow the super-task of a thread, and see whether the thread has ended already.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none.
        """
        state = await self._bus.threads.state(*place)
        if state.is_open:
            self.soon(place.task)
        else:
            self._tell(state.last_ctl_seq, state)

    def unseen(self, place: Place | None) -> list[Closing]:
        """Return what was not acknowledged; of one thread and its super-task where one is given."""
        return [
            closing
            for closing in self._told.values()
            if place is None
            or (
                closing.state.task == place.task
                and closing.state.thread in {place.thread, MAIN_THREAD}
            )
        ]

    def acknowledge(self, seqs: frozenset[int]) -> None:
        """Forget what was received."""
        for seq in seqs:
            if self._told.pop(seq, None) is not None:
                self._acknowledged.add(seq)
        if len(self._acknowledged) > MAX_TOLD:
            self._acknowledged = set(sorted(self._acknowledged)[-MAX_TOLD:])

    async def _follow(self, task: TaskId) -> None:
        after = 0
        threads: dict[ThreadId, ThreadState] = {}
        while True:
            try:
                async for entry in self._bus.follow(task, after=after):
                    after = entry.seq
                    if isinstance(entry, Recorded) and self._fold(threads, entry):
                        self._followers.pop(task, None)
                        return
            except (BusError, TimeoutError) as error:
                _log.warning("cannot follow a task, trying on", task=task, reason=str(error))
            await asyncio.sleep(_AGAIN_S)

    def _fold(self, threads: dict[ThreadId, ThreadState], recorded: Recorded) -> bool:
        """Take an event in; whether the super-task has ended."""
        event = recorded.event
        state = threads.get(event.thread)
        if state is None:
            state = threads[event.thread] = ThreadState(task=event.task, thread=event.thread)
        was_open = state.is_open
        state.apply(recorded.seq, event)
        if was_open == state.is_open:
            return False
        if self._bus.name in state.participants:
            self._on_change()
            if was_open and event.sender != self._bus.name:
                self._tell(recorded.seq, state.copy())
        return was_open and state.thread == MAIN_THREAD

    def _tell(self, seq: int, state: ThreadState) -> None:
        if seq in self._acknowledged or seq in self._told:
            return
        self._told[seq] = Closing(seq, state)
        while len(self._told) > MAX_TOLD:
            self._told.popitem(last=False)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
