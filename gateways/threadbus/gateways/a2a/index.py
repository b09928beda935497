"""Which tasks there are, for lists: folded from the control events of all main threads.

A cache of what the log says, read on at each question, so that a gateway that has just started
gives the same list as one that has run for a month. Of a task that has ended a few words are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from threadbus.bus import Bus
from threadbus.gateways.a2a.ids import AGENT
from threadbus.gateways.a2a.log import TaskLog
from threadbus.gateways.a2a.view import TaskView
from threadbus.schemas import MAIN_THREAD, AgentName, EventId, LogPlaces, TaskId


class Row(msgspec.Struct):
    """One task in the index."""

    task: TaskId
    opening: EventId | None
    """The event that opened it."""
    opener: AgentName | None
    participants: frozenset[AgentName]
    context: str
    agent: str
    """Through which card it was asked; None of ours where the label is missing."""
    labels: dict[str, str]
    ended_at: int
    """When it ended, in nanoseconds since the epoch; 0 while it goes on."""
    state: int = 0
    opened_seq: int = 0


class TaskIndex:
    """The tasks of a bus, as far as lists need them."""

    def __init__(self, bus: Bus, log: TaskLog) -> None:
        self._bus = bus
        self._log = log
        self._places = LogPlaces()
        self._open: dict[TaskId, TaskView] = {}
        self._rows: dict[TaskId, Row] = {}
        self._reading = asyncio.Lock()

    async def rows(self, name: AgentName) -> Sequence[Row]:
        """Return the tasks in which *name* takes part, the oldest first.

        Cancellation: safe.
        """
        async with self._reading:
            await self._read_on()
        return [row for row in self._rows.values() if name in row.participants]

    async def latest_in(self, name: AgentName, context: str) -> Row | None:
        """Return the task that *name* opened last in a context."""
        found = [
            row for row in await self.rows(name) if row.context == context and row.opener == name
        ]
        return found[-1] if found else None

    async def _read_on(self) -> None:
        touched: set[TaskId] = set()
        async for recorded in self._bus.tasks.controls(after=self._places):
            self._places.take(recorded.seq)
            task = recorded.event.task
            view = self._open.get(task)
            if view is None:
                if task in self._rows:
                    # It has ended; nothing that follows changes a list.
                    continue
                view = self._open[task] = self._log.begin(task)
            view.apply(recorded)
            touched.add(task)
            if task not in self._rows and view.exists:
                self._rows[task] = Row(
                    task=task,
                    opening=recorded.event.id,
                    opener=view.bus.opened_by,
                    participants=frozenset(),
                    context=view.context,
                    agent=view.labels.get(AGENT, ""),
                    labels=view.labels,
                    ended_at=0,
                    opened_seq=recorded.seq,
                )
        for task in touched:
            self._note(task)

    def _note(self, task: TaskId) -> None:
        view, row = self._open[task], self._rows.get(task)
        if row is None:
            return
        main = view.bus.threads.get(MAIN_THREAD)
        row.participants = frozenset(main.participants) if main is not None else frozenset()
        row.state = view.state
        if view.is_terminal:
            row.ended_at = view.updated_at
            del self._open[task]
