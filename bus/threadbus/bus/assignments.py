"""What the log has of assignments: who made them, which are there, how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing

import msgspec

from threadbus.bus.appended import Appended
from threadbus.bus.errors import InvalidTransitionError
from threadbus.bus.log import EventLog
from threadbus.bus.outcomes import AssignmentResult, may_settle, result_of
from threadbus.schemas import (
    AgentName,
    AssignmentMade,
    AssignmentMode,
    Event,
    EventId,
    Part,
    Recorded,
    TaskId,
    ThreadId,
    ThreadStateChanged,
)


class Job(msgspec.Struct, frozen=True):
    """A piece of work to give out."""

    assignee: str
    content: str | Part | Sequence[Part]
    title: str = ""


class Assigned(msgspec.Struct, frozen=True):
    """Work that was given out, and the pause that waits for it."""

    pause: Appended
    assignments: tuple[EventId, ...]
    """In the order of the jobs."""


async def as_stored(log: EventLog, appended: Appended) -> Appended:
    """Return what stands under the id of an event that was there already."""
    event = appended.event
    async with aclosing(log.read(event.task, event.thread, appended.seq - 1)) as entries:
        async for entry in entries:
            if isinstance(entry, Recorded) and entry.event.id == event.id:
                return Appended(entry.seq, entry.event, duplicate=True)
    return appended


async def made_behind(log: EventLog, pause: Appended) -> set[EventId]:
    """Return the assignments that were made in a thread since a pause began."""
    event = pause.event
    async with aclosing(log.read(event.task, event.thread, pause.seq)) as entries:
        return {
            entry.event.id
            async for entry in entries
            if isinstance(entry, Recorded) and isinstance(entry.event.data, AssignmentMade)
        }


async def woken_by_result(
    log: EventLog, task: TaskId, thread: ThreadId, assignment: EventId
) -> tuple[AgentName, ...]:
    """Return whom the result of an assignment mentions: its maker, unless the maker waits."""
    async with aclosing(log.read(task, thread)) as entries:
        async for entry in entries:
            if isinstance(entry, Recorded) and entry.event.id == assignment:
                data = entry.event.data
                waits = isinstance(data, AssignmentMade) and data.mode is AssignmentMode.SYNC
                return () if waits else (entry.event.sender,)
    return ()


async def outcomes_of(
    log: EventLog, task: TaskId, pause: EventId
) -> Mapping[EventId, AssignmentResult | None]:
    """Return how the triggers of a pause ended, in their order; None for what did not.

    Raises:
        InvalidTransitionError: the event is no pause of this super-task.
    """
    triggers: tuple[EventId, ...] = ()
    made: dict[EventId, Event] = {}
    found: dict[EventId, AssignmentResult] = {}
    async with aclosing(log.read(task)) as entries:
        async for entry in entries:
            if not isinstance(entry, Recorded):
                continue
            event = entry.event
            data = event.data
            if event.id == pause and isinstance(data, ThreadStateChanged):
                triggers = tuple(EventId(trigger) for trigger in data.triggers)
            if isinstance(data, AssignmentMade):
                made.setdefault(event.id, event)
            result = result_of(event)
            if result is not None and may_settle(event, made.get(result.assignment)):
                found.setdefault(result.assignment, result)
    if not triggers:
        raise InvalidTransitionError(
            f"reading the outcomes of {pause}", "it is no pause", ["name the move with triggers"]
        )
    return {trigger: found.get(trigger) for trigger in triggers}
