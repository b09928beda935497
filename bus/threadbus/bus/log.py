"""Events in the log: the guarded append, and what is known of threads on the way.

The guard. A thread changes only by control events, and each of those is appended on condition
that the last control event is the one that the writer has seen. Every message and every piece of
work carries the same condition, so what comes after a close, or from an agent that was just
removed, is refused by the server. On a refusal the writer reads the thread again, checks again,
and tries again or raises. Observations carry no condition: what was seen is recorded also after
the end.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from threadbus.bus._logging import log as _log
from threadbus.bus.appended import Appended, AppendedPair
from threadbus.bus.errors import (
    AppendError,
    ConflictError,
    InvalidTransitionError,
    NotAParticipantError,
    TaskNotFoundError,
    ThreadNotFoundError,
)
from threadbus.bus.limits import LimitBook
from threadbus.bus.outgoing import Outgoing
from threadbus.bus.ports import Backend, Guard, GuardFailedError, Haste, Position
from threadbus.bus.reading import LogReader
from threadbus.bus.settings import BusSettings
from threadbus.bus.state import ThreadState
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    EventClass,
    HandlingEnded,
    Recorded,
    SubjectFilter,
    TaskForked,
    TaskId,
    TaskOpened,
    ThreadId,
    ThreadOpened,
    control_filter,
    encode_event,
    new_event_id,
    parse_task_id,
    parse_thread_id,
    task_control_filter,
)

_ATTEMPTS: Final = 16
_CACHED_THREADS: Final = 4096


class EventLog(LogReader):
    """The log as events. One for each connection; shared by everybody who speaks over it."""

    def __init__(self, backend: Backend, settings: BusSettings) -> None:
        super().__init__(backend)
        self.limits = LimitBook(backend, settings)
        """How much each sender may say."""
        self._outgoing = Outgoing(backend, settings, self.limits)
        self._threads: OrderedDict[tuple[TaskId, ThreadId], ThreadState] = OrderedDict()
        self._known_to: dict[tuple[TaskId, ThreadId], int] = {}

    # appending

    async def append(
        self, event: Event, check: Callable[[ThreadState], None] | None = None
    ) -> Appended:
        """Append *event* under the guard of its thread.

        Safe to call again with the same event after an error: its id keeps it from doubling.

        Args:
            event: what to append.
            check: called with the thread as it now is, before each attempt; raises to refuse.

        Raises:
            ThreadClosedError, NotAParticipantError, TaskNotFoundError, ThreadNotFoundError: the
                thread does not allow it.
            InvalidTransitionError: the thread that it opens was opened before.
            ConflictError: the thread changed under every attempt.
            RateLimitedError: the sender says more than it may.
            AppendError: the server refused or did not answer.

        Cancellation: the event may or may not be in the log; append it again to be sure.
        """
        if event.event_class is EventClass.OBS:
            position = await self._own(event, await (await self._outgoing.send(event, None)), None)
            return Appended(position.seq, event, position.duplicate)
        body = encode_event(event)
        state = self._threads.get((event.task, event.thread))
        if state is not None:
            self._threads.move_to_end((event.task, event.thread))
        elif isinstance(event.data, TaskOpened):
            # Mostly there is nothing to read; where there is, the guard says so.
            state = self._remember(ThreadState(task=event.task, thread=event.thread))
        else:
            state = await self.thread(event.task, event.thread)
        for attempt in range(_ATTEMPTS):
            stored = state.control_seqs.get(event.id)
            if stored is not None:
                return Appended(stored, event, duplicate=True)
            seen = state.last_ctl_seq
            try:
                if not state.admits(event):
                    await self._validate(state, event)
                if check is not None:
                    check(state)
            except AppendError:
                # Nobody is refused for what others have changed since this thread was read.
                await self._catch_up(state)
                if state.last_ctl_seq == seen:
                    raise
                continue
            guard = Guard(control_filter(event.task, event.thread), state.last_ctl_seq)
            try:
                sent = await (await self._outgoing.send(event, guard, body))
                position = await self._own(event, sent, guard)
            except GuardFailedError as refusal:
                before = state.last_ctl_seq
                await self._catch_up(state, refusal.last_seq)
                if refusal.resent:
                    found = await self._find(event, before)
                    if found is not None:
                        return Appended(found, event, duplicate=True)
                if attempt:
                    # Several writers of one thread: step out of each other's way.
                    await asyncio.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 6)))  # noqa: S311
                continue
            return self._landed(state, event, position)
        raise ConflictError(event.subject, _ATTEMPTS, state.last_ctl_seq)

    async def _own(self, event: Event, position: Position, guard: Guard | None) -> Position:
        """Return where *event* is, also when somebody else had put another one under its id.

        Ids of results are derived and can be known beforehand. Whoever stores anything of his own
        under such an id makes the server take the event for one that it has. So what counts as
        there already must be of this sender; otherwise the event is stored under an id that nobody
        can know, unless an earlier attempt did so.
        """
        if not position.duplicate:
            return position
        other = await self.stored_by_other(position.seq, event.sender)
        if not other:
            return position
        _log.warning("an id was taken by another, a new one is used", id=event.id, by=other)
        before = await self._find(event, 0)
        if before is not None:
            return Position(before, duplicate=True)
        return await (
            await self._outgoing.send(event, guard, msg_id=f"{event.id}-{new_event_id()}")
        )

    def _landed(self, state: ThreadState, event: Event, position: Position) -> Appended:
        if not position.duplicate:
            if event.event_class is EventClass.CTL:
                state.apply(position.seq, event)
            if (event.task, event.thread) in self._threads:
                self._known_to[event.task, event.thread] = position.seq
        return Appended(position.seq, event, position.duplicate)

    async def append_pair(self, first: Event, second: Event) -> AppendedPair:
        """Append two events of one thread, *second* never without *first*; in one round trip.

        Where the log has one copy both are sent at once, the second on condition that the first is
        what the log ends with. So it is refused where the first was, and where the first got lost
        or anything came between; then, and with more copies, each is appended by itself, the first
        before the second.

        In a main thread that nothing but its opening has changed, the second is also on condition
        that this is the last control event of the whole super-task: whoever ends it need not look
        for other threads then.

        Raises:
            AppendError: as :meth:`append`.

        Cancellation: none, the first, or both may be in the log; append them again to be sure.
        """
        state = await self.thread(first.task, first.thread)
        chained = self._backend.log.can_chain and state.admits(first) and state.admits(second)
        if not chained:
            return AppendedPair(await self.append(first), await self.append(second), False)
        guard = behind = Guard(control_filter(first.task, first.thread), state.last_ctl_seq)
        may_be_alone = first.thread == MAIN_THREAD and len(state.control_seqs) == 1
        if may_be_alone:
            behind = guard._replace(subject=task_control_filter(first.task))
        # The first goes with the second, in one write: nobody is served by the first alone.
        one = await self._outgoing.send(first, guard, haste=Haste.SOON)
        two = await self._outgoing.send(second, behind._replace(behind=first.id))
        await asyncio.wait((one, two))
        landed = await self._settled(state, first, one, guard)
        then = await self._settled(state, second, two, guard)
        # Of one that was there before it is not known on which condition.
        was_taken = two.exception() is None and not then.duplicate
        return AppendedPair(landed, then, may_be_alone and was_taken)

    async def _settled(
        self, state: ThreadState, event: Event, sent: asyncio.Future[Position], guard: Guard
    ) -> Appended:
        """Return where an event of a pair is; one that was refused is appended by itself."""
        if isinstance(sent.exception(), GuardFailedError):
            return await self.append(event)
        return self._landed(state, event, await self._own(event, sent.result(), guard))

    async def observe(self, event: Event) -> None:
        """Send an observation without waiting for its acknowledgement.

        It is sent again until it is acknowledged; what fails in the end is logged. Leaving the
        bus waits for it.
        """
        # The end of a turn is the last that is said in it: nobody's answer has to wait for it.
        haste = Haste.LAST if isinstance(event.data, HandlingEnded) else Haste.SOON
        future = await self._outgoing.send(event, None, haste=haste)
        future.add_done_callback(_report_lost)

    async def _find(self, event: Event, after: int) -> int | None:
        """Look for an event whose first copy may have been stored before the guard failed."""
        async with aclosing(self._read(SubjectFilter(event.subject), after)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded) and entry.event.id == event.id:
                    return entry.seq
        return None

    async def _validate(self, state: ThreadState, event: Event) -> None:
        opening = isinstance(event.data, TaskOpened | ThreadOpened)
        if not state.exists:
            if opening:
                return
            await self._raise_not_found(event.task, event.thread)
        if opening:
            what = "super-task" if event.thread == MAIN_THREAD else f"thread {event.thread} in"
            raise InvalidTransitionError(
                f"opening {what} {event.task}", "it was opened before", ["use it", "another id"]
            )
        state.check_open()
        forked = isinstance(event.data, TaskForked)
        named = (event.sender,) if forked else (event.sender, *event.mentions)
        outside = [name for name in named if name not in state.participants]
        if outside:
            raise NotAParticipantError(outside, event.task, event.thread, list(state.participants))
        state.check_talk(event)

    async def _raise_not_found(self, task: TaskId, thread: ThreadId) -> None:
        known = [state.thread for state in await self.threads(task)]
        if MAIN_THREAD not in known:
            raise TaskNotFoundError(task)
        raise ThreadNotFoundError(task, thread, known)

    # thread state

    async def thread(self, task: TaskId, thread: ThreadId, *, fresh: bool = False) -> ThreadState:
        """Return the state of a thread, from memory where it is known.

        Args:
            task: the super-task.
            thread: the thread in it.
            fresh: read what came since, also when the thread is known.
        """
        key = (parse_task_id(task), parse_thread_id(thread))
        state = self._threads.get(key)
        if state is None:
            state = ThreadState(task=task, thread=thread)
            await self._catch_up(state)
            state = self._threads.get(key) or self._remember(state)
        else:
            self._threads.move_to_end(key)
            if fresh:
                await self._catch_up(state)
        return state

    def _remember(self, state: ThreadState) -> ThreadState:
        self._threads[state.task, state.thread] = state
        if len(self._threads) > _CACHED_THREADS:
            oldest, _ = self._threads.popitem(last=False)
            self._known_to.pop(oldest, None)
        return state

    def known(self, task: TaskId, thread: ThreadId) -> ThreadState | None:
        """Return the state of a thread that is in memory, as it was when last seen."""
        return self._threads.get((task, thread))

    def known_to(self, task: TaskId, thread: ThreadId) -> int:
        """Return a sequence up to which nothing of a thread's control events was missed."""
        return self._known_to.get((task, thread), 0)

    async def existing_thread(self, task: TaskId, thread: ThreadId) -> ThreadState:
        """Return a thread as the log has it now.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none.
        """
        state = await self.thread(task, thread, fresh=True)
        if not state.exists:
            await self._raise_not_found(task, thread)
        return state

    async def check_open(self, task: TaskId, thread: ThreadId) -> None:
        """Check that a thread is open, as the log has it now.

        Raises:
            TaskNotFoundError, ThreadNotFoundError, ThreadClosedError: it is not.
        """
        (await self.existing_thread(task, thread)).check_open()

    async def check_exists(self, task: TaskId, thread: ThreadId) -> None:
        """Check that a thread was ever opened; nothing is read where that is known.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: it was not.
        """
        if not (await self.thread(task, thread)).exists:
            await self.existing_thread(task, thread)

    async def thread_at(self, task: TaskId, thread: ThreadId, seq: int) -> ThreadState:
        """Return a thread as it was at a sequence, as a state of the caller's own."""
        if seq > 0:
            known = self._threads.get((task, thread))
            if known is not None and known.last_ctl_seq <= seq <= self.known_to(task, thread):
                return known.copy()
        state = ThreadState(task=task, thread=thread)
        if seq > 0:
            async with aclosing(self._read(control_filter(task, thread), 0)) as entries:
                async for entry in entries:
                    if entry.seq > seq:
                        break
                    if isinstance(entry, Recorded):
                        state.apply(entry.seq, entry.event)
        return state

    async def check_may_speak(self, task: TaskId, thread: ThreadId, name: AgentName) -> None:
        """Check that *name* could append to a thread as the log has it now.

        Raises:
            TaskNotFoundError, ThreadNotFoundError, ThreadClosedError, NotAParticipantError.
        """
        state = await self.existing_thread(task, thread)
        state.check_open()
        if name not in state.participants:
            raise NotAParticipantError([name], task, thread, list(state.participants))

    def learn(self, recorded: Recorded) -> None:
        """Take in the event that opens a thread, so that it need not be read.

        Only an opening is taken: a thread has no control event before it that was missed.
        """
        event = recorded.event
        if isinstance(event.data, TaskOpened | ThreadOpened):
            key = (event.task, event.thread)
            if key not in self._threads:
                state = ThreadState(task=event.task, thread=event.thread)
                state.apply(recorded.seq, event)
                self._remember(state)
                self._known_to[key] = recorded.seq

    async def threads(self, task: TaskId) -> Sequence[ThreadState]:
        """Read the state of every thread of a super-task."""
        states: dict[ThreadId, ThreadState] = {}
        async for entry in self._read(task_control_filter(parse_task_id(task)), 0):
            if isinstance(entry, Recorded):
                thread = entry.event.thread
                if thread not in states:
                    states[thread] = ThreadState(task=task, thread=thread)
                states[thread].apply(entry.seq, entry.event)
        return [state for state in states.values() if state.exists]

    async def _catch_up(self, state: ThreadState, at_least: int = 0) -> None:
        """Read the control events that *state* lacks, up to the one that the server named."""
        for attempt in range(8):
            filter_ = control_filter(state.task, state.thread)
            async for entry in self._read(filter_, state.last_ctl_seq):
                if isinstance(entry, Recorded):
                    state.apply(entry.seq, entry.event)
                else:
                    # Garbage on a control subject moves what the guard compares with.
                    state.last_ctl_seq = max(state.last_ctl_seq, entry.seq)
            if state.last_ctl_seq >= at_least:
                return
            # A replica that lags behind the leader answered; the leader named a later sequence.
            await asyncio.sleep(0.01 * 2**attempt)


def _report_lost(future: asyncio.Future[Position]) -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.error("an observation was not stored", error=str(future.exception()))
