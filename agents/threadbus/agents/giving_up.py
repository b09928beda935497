"""When a mention cannot be handled: whoever asked is told, and nobody waits for ever in silence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from threadbus.agents.errors import TaskDeadlineError, TaskEndedError
from threadbus.agents.journal import Journal
from threadbus.agents.throttling import ExchangeTooLongError, ThrottledError
from threadbus.bus import (
    AppendError,
    Bus,
    BusError,
    NotAParticipantError,
    SteadyLog,
    ThreadClosedError,
    ThreadState,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AssignmentFailed,
    AssignmentMade,
    AssignmentMode,
    ErrorInfo,
    Event,
    EventClass,
    EventId,
    InputGiven,
    MentionDeadLettered,
    Recorded,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    ThreadId,
    ThreadOpened,
    ThreadOutcome,
    ThreadStateChanged,
    clean_text,
)

_LOOK_AGAIN_S: Final = 1.0
_MAX_SUMMARY_CHARS: Final = 2000
_log: Final = SteadyLog("threadbus.agents")


class GivingUp:
    """Says for one mention that nothing will come of it."""

    def __init__(self, bus: Bus, event: Event, journal: Journal) -> None:
        self._bus = bus
        self._event = event
        self._journal = journal

    async def tell(self, error: ErrorInfo, attempts: int, *, quietly: bool = False) -> None:
        """Fail the assignment, if it is one, and write the dead letter; both mention the asker.

        *quietly*: the dead letter mentions nobody.
        """
        event, own = self._event, self._bus.name
        asker = () if event.sender == own else (event.sender,)
        if isinstance(event.data, AssignmentMade):
            await self._fail_assignment(event, event.data, error)
        await self._bus.observe(
            MentionDeadLettered(error=error, attempts=min(attempts, 10_000)),
            task=event.task,
            thread=event.thread,
            mentions=() if quietly else asker,
            cause=event.id,
            event_id=self._journal.id_of("dead"),
        )

    async def end_what_rests(self, error: ErrorInfo) -> None:
        """Fail what nobody else will end: an own team and its assignment, or the super-task.

        The super-task where its question was put to this agent only. An agent that paused is woken
        by itself, so what counts is what it was asked before it paused.
        """
        asked = self._event
        if isinstance(asked.data, ThreadStateChanged):
            asked = await self._asked_before()
            await self._end_team(asked, error)
        if isinstance(asked.data, TaskOpened | InputGiven):
            await self._end_task_if_alone(error)

    async def _asked_before(self) -> Event:
        """Return what made the agent pause, or open the team whose conversation it gives up."""
        known: dict[EventId, Event] = {}
        openings: dict[ThreadId, Event] = {}
        async for entry in self._bus.read(self._event.task):
            if isinstance(entry, Recorded):
                event = entry.event
                if isinstance(event.data, ThreadOpened):
                    openings.setdefault(event.thread, event)
                if event.event_class is not EventClass.OBS:
                    known.setdefault(event.id, event)
        found = self._event
        while isinstance(found.data, ThreadStateChanged | ThreadOpened):
            cause = None if found.cause is None else known.pop(found.cause, None)
            if cause is None and isinstance(found.data, ThreadStateChanged):
                # The turns of the thread are used up: nobody's move.
                cause = openings.pop(found.thread, None)
            if cause is None:
                break
            found = cause
        return found

    async def _end_team(self, asked: Event, error: ErrorInfo) -> None:
        event, own = self._event, self._bus.name
        with contextlib.suppress(AppendError):
            state = await self._bus.threads.state(event.task, event.thread)
            if event.thread != MAIN_THREAD and state.creator == own:
                await self._bus.threads.close(
                    event.task,
                    event.thread,
                    summary=clean_text(f"{own} gave up: {error.message}", _MAX_SUMMARY_CHARS),
                    outcome=ThreadOutcome.FAILED,
                    cause=event.id,
                    event_id=self._journal.id_of("team"),
                )
        if isinstance(asked.data, AssignmentMade) and asked.data.assignee == own:
            await self._fail_assignment(asked, asked.data, error)

    async def _fail_assignment(self, made: Event, data: AssignmentMade, error: ErrorInfo) -> None:
        waits = data.mode is AssignmentMode.SYNC or made.sender == self._bus.name
        try:
            await self._bus.append(
                AssignmentFailed(assignment=made.id, error=error),
                task=made.task,
                thread=made.thread,
                mentions=() if waits else (made.sender,),
                cause=made.id,
                event_id=self._journal.id_of("failed"),
            )
        except AppendError as refusal:
            _log.warning("could not say that the work failed", reason=str(refusal))

    async def _end_task_if_alone(self, error: ErrorInfo) -> None:
        async for entry in self._bus.read(self._event.task, MAIN_THREAD):
            if isinstance(entry, Recorded) and isinstance(entry.event.data, TaskOpened):
                if entry.event.addressees == (self._bus.name,):
                    await self.end_task(error)
                return

    async def throttled(self, error: ThrottledError, info: ErrorInfo) -> None:
        """Answer nothing; the sender is told once, not for each of its mentions."""
        await self.tell(info, 0, quietly=not error.is_first)
        if isinstance(error, ExchangeTooLongError) and self._event.thread == MAIN_THREAD:
            await self.end_task(info)

    async def end_task(self, error: ErrorInfo) -> bool:
        """Close the super-task as failed; False where this agent is not in its main thread."""
        summary = f"{self._bus.name} gave up: {error.kind}: {error.message}"
        try:
            await self._bus.tasks.close(
                self._event.task,
                TaskStatus.FAILED,
                summary=clean_text(summary, _MAX_SUMMARY_CHARS),
                cause=self._event.id,
                event_id=self._journal.id_of("end"),
            )
        except ThreadClosedError:
            return True
        except NotAParticipantError:
            return False
        return True


async def task_end(bus: Bus, event: Event) -> Exception:
    """Wait until the super-task of *event* is closed by another agent, or its time is up.

    What this agent itself closes does not end its handler, which may have more to do.
    """
    while True:
        try:
            return await _task_end(bus, event)
        except (BusError, TimeoutError) as error:
            _log.warning("cannot see whether the task goes on", task=event.task, reason=str(error))
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _task_end(bus: Bus, event: Event) -> Exception:
    state = ThreadState(task=event.task, thread=MAIN_THREAD)
    limit = asyncio.timeout(None)
    try:
        async with limit, bus.waits.following_controls(event.task) as entries:
            async for entry in entries:
                if not isinstance(entry, Recorded):
                    continue
                was_open = state.is_open
                state.apply(entry.seq, entry.event)
                data = entry.event.data
                if isinstance(data, TaskOpened) and data.deadline_at is not None:
                    left = (data.deadline_at - time.time_ns()) / 1e9
                    limit.reschedule(asyncio.get_running_loop().time() + left)
                elif isinstance(data, TaskClosed) and was_open and not state.is_open:
                    if entry.event.sender == bus.name:
                        limit.reschedule(None)
                        await asyncio.Event().wait()
                    return TaskEndedError(event.task, data.outcome.value)
    except TimeoutError:
        if not limit.expired():
            raise
    return TaskDeadlineError(event.task)


def is_over(error: Exception, event: Event, agent: str) -> bool:
    """Whether nobody can be answered any more: the thread has ended, or the agent is out."""
    if isinstance(error, ThreadClosedError):
        return error.task == event.task and error.thread in {MAIN_THREAD, event.thread}
    if isinstance(error, NotAParticipantError):
        return agent in error.names
    return isinstance(error, TaskEndedError)
