"""The log as the task store: read a task, follow it, list tasks.

Nothing is kept that the log does not hold. A gateway that was killed, or another one, reads the
same events and gives the same answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final, TypeAlias

import msgspec
from a2a.types import a2a_pb2 as pb

from threadbus.bus import ArtifactError, Bus, Entry
from threadbus.gateways.a2a.view import Position, TaskView, Update
from threadbus.schemas import (
    AgentName,
    AnyData,
    ArtifactAdded,
    InvalidIdError,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    SchemaError,
    TaskId,
    parse_task_id,
)

MAX_LOADED_BYTES: Final = 1024 * 1024
"""Content up to this size goes out whole; what is larger by an address of the gateway."""

MAX_TASK_BYTES: Final = 16 * 1024 * 1024
"""Content of one task that goes out whole, all together; what comes later by an address, too."""

Linker: TypeAlias = Callable[[TaskId, ReferencePart], str]
"""Returns the address of content for those who may see a task."""


class Stopping:
    """Ends waits when the gateway stops, so that streams end with a last word."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self.is_set = False

    def set(self) -> None:
        """End every wait, now and from now on."""
        self.is_set = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    async def next_of(
        self, entries: AsyncIterator[Entry], deadline: float | None = None
    ) -> Entry | None:
        """Return the next entry, or None at the stop or the *deadline* (of the loop's clock).

        Cancellation: safe.
        """
        if self.is_set:
            return None
        wait = asyncio.timeout_at(deadline)
        try:
            async with wait:
                self._waits.add(wait)
                return await anext(entries)
        except TimeoutError:
            if not wait.expired():
                raise
            return None
        finally:
            self._waits.discard(wait)


class TaskLog:
    """Super-tasks as A2A tasks."""

    def __init__(self, bus: Bus, link: Linker, stopping: Stopping) -> None:
        self._bus = bus
        self._link = link
        self._stopping = stopping

    def begin(self, task: TaskId) -> TaskView:
        """Return the view of a task of which nothing was read yet."""
        return TaskView(task, lambda part: self._link(task, part))

    async def view(self, task: str) -> TaskView | None:
        """Read a task to its end; None where there is none.

        Cancellation: safe.
        """
        try:
            view = self.begin(parse_task_id(task))
        except InvalidIdError:
            return None
        async with aclosing(self._bus.read(view.bus.task)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded):
                    await self.fold(view, entry)
        return view if view.exists else None

    async def fold(self, view: TaskView, recorded: Recorded) -> list[tuple[Position, Update]]:
        """Fold one event into *view*, its content loaded where it is not too large."""
        return view.apply(await self._loaded(recorded, view))

    async def updates(
        self, view: TaskView, viewer: AgentName, *, deadline: float | None = None
    ) -> AsyncGenerator[tuple[Position, Update]]:
        """Follow a task after what *view* has seen, until it ends, the deadline, or the stop.

        Each update comes once, in the order of the log; *view* is folded on. For a *viewer* that is
        taken out of the task there are no more.
        """
        async with (
            self._bus.waits.following(view.bus.task, after=view.bus.last_seq) as entries,
            aclosing(self.updates_from(entries, view, viewer, deadline=deadline)) as updates,
        ):
            async for update in updates:
                yield update

    async def updates_from(
        self,
        entries: AsyncIterator[Entry],
        view: TaskView,
        viewer: AgentName,
        *,
        deadline: float | None = None,
    ) -> AsyncGenerator[tuple[Position, Update]]:
        """Take entries of a task until it ends (see :meth:`updates`)."""
        while not view.is_terminal:
            entry = await self._stopping.next_of(entries, deadline)
            if entry is None:
                return
            if isinstance(entry, Recorded):
                was_shown = view.shows(viewer)
                updates = await self.fold(view, entry)
                if was_shown and not view.shows(viewer):
                    return
                for update in updates:
                    yield update

    async def _loaded(self, recorded: Recorded, view: TaskView) -> Recorded:
        data: AnyData = recorded.event.data
        changed: AnyData
        if isinstance(data, ArtifactAdded):
            part = await self._load(data.part, view)
            changed = data if part is data.part else msgspec.structs.replace(data, part=part)
        else:
            parts: Parts = getattr(data, "parts", ())
            if not any(isinstance(part, ReferencePart) for part in parts):
                return recorded
            loaded = tuple([await self._load(part, view) for part in parts])
            changed = msgspec.structs.replace(data, parts=loaded)
        if changed is data:
            return recorded
        return Recorded(
            recorded.seq, msgspec.structs.replace(recorded.event, data=changed), recorded.stored_at
        )

    async def _load(self, part: Part, view: TaskView) -> Part:
        if not isinstance(part, ReferencePart) or part.size > MAX_LOADED_BYTES:
            return part
        if view.loaded_bytes + part.size > MAX_TASK_BYTES:
            # The same in every process: each folds a task from its beginning.
            return part
        view.loaded_bytes += part.size
        try:
            return await self._bus.artifacts.load(part)
        except (ArtifactError, SchemaError):
            # It is gone or damaged; whoever follows the address is told so.
            return part


def stands(view: TaskView, *, ends_interrupted: bool) -> bool:
    """Whether a client has nothing to wait for: the task ended, or it is the client's turn."""
    return view.is_terminal or (ends_interrupted and view.is_interrupted)


def trimmed(task: pb.Task, history_length: int | None, *, artifacts: bool = True) -> pb.Task:
    """Return *task* with at most the last *history_length* messages; all where that is None."""
    if history_length is not None and len(task.history) > history_length:
        del task.history[: len(task.history) - history_length]
    if not artifacts:
        task.ClearField("artifacts")
    return task
