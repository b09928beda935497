"""Events in the log: the guarded append, reading, and following without a gap.

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
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from threadbus.bus.errors import (
    ConflictError,
    InvalidTransitionError,
    NotAParticipantError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
)
from threadbus.bus.ports import Backend, Guard, GuardFailedError, Position, StoredMessage
from threadbus.bus.settings import BusSettings
from threadbus.bus.state import ThreadState
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    EventClass,
    Recorded,
    Rejected,
    SchemaError,
    SubjectFilter,
    TaskId,
    TaskOpened,
    ThreadId,
    ThreadOpened,
    control_filter,
    decode_recorded_event,
    encode_event,
    openings_filter,
    task_control_filter,
    task_filter,
    thread_filter,
)

Entry: TypeAlias = Recorded | Rejected
"""What a reader gets: an event, or the report that some bytes are none."""

_ATTEMPTS: Final = 16
_CACHED_THREADS: Final = 4096
_NO_LIMIT: Final = 1 << 60
_MAX_TAIL: Final = 10_000
_FIRST_LOOK_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0
_log: Any = structlog.get_logger("threadbus.bus")


class Appended(msgspec.Struct, frozen=True):
    """Where an event landed."""

    seq: int
    event: Event
    duplicate: bool = False
    """Whether an event of this id was there already; that one stays as it was."""


def decode_entry(message: StoredMessage) -> Entry:
    """Decode one message of the log; bytes that are no event become a report."""
    try:
        event = decode_recorded_event(message.subject, message.body)
    except SchemaError as error:
        return Rejected(message.seq, message.subject, str(error))
    return Recorded(message.seq, event, message.stored_at)


class EventLog:
    """The log as events. One for each connection; shared by everybody who speaks over it."""

    def __init__(self, backend: Backend, settings: BusSettings) -> None:
        self._backend = backend
        self._timeout = settings.append_timeout
        self._threads: OrderedDict[tuple[TaskId, ThreadId], ThreadState] = OrderedDict()
        self.rejected = 0
        """How many messages that are no events were met on this connection."""

    # appending

    async def append(
        self, event: Event, check: Callable[[ThreadState], None] | None = None
    ) -> Appended:
        """Append *event* under the guard of its thread.

        Safe to call again with the same event after an error: its id keeps it from being stored
        twice.

        Args:
            event: what to append.
            check: called with the thread as it now is, before each attempt; raises to refuse.

        Raises:
            ThreadClosedError, NotAParticipantError, TaskNotFoundError, ThreadNotFoundError: the
                thread does not allow it.
            InvalidTransitionError: the thread that it opens was opened before.
            ConflictError: the thread changed under every attempt.
            AppendError: the server refused or did not answer.

        Cancellation: the event may or may not be in the log; append it again to be sure.
        """
        if event.event_class is EventClass.OBS:
            position = await (await self._send(event, None))
            return Appended(position.seq, event, position.duplicate)
        body = encode_event(event)
        state = await self.thread(event.task, event.thread)
        for attempt in range(_ATTEMPTS):
            stored = state.control_seqs.get(event.id)
            if stored is not None:
                return Appended(stored, event, duplicate=True)
            await self._validate(state, event)
            if check is not None:
                check(state)
            guard = Guard(control_filter(event.task, event.thread), state.last_ctl_seq)
            try:
                position = await (await self._send(event, guard, body))
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
            if event.event_class is EventClass.CTL and not position.duplicate:
                state.apply(position.seq, event)
            return Appended(position.seq, event, position.duplicate)
        raise ConflictError(event.subject, _ATTEMPTS, state.last_ctl_seq)

    async def observe(self, event: Event) -> None:
        """Send an observation without waiting for its acknowledgement.

        It is sent again until it is acknowledged; what fails in the end is logged. Leaving the
        bus waits for it.
        """
        future = await self._send(event, None)
        future.add_done_callback(_report_lost)

    async def _send(
        self, event: Event, guard: Guard | None, body: bytes | None = None
    ) -> asyncio.Future[Position]:
        return await self._backend.log.append(
            event.subject,
            encode_event(event) if body is None else body,
            msg_id=event.id,
            guard=guard,
            headers={"traceparent": f"00-{event.task}-{event.id[16:]}-01"},
            timeout=self._timeout,
        )

    async def _find(self, event: Event, after: int) -> int | None:
        """Look for an event whose first copy may have been stored before the guard failed."""
        filter_ = SubjectFilter(event.subject)
        async for batch in self._backend.log.read(filter_, after, _NO_LIMIT):
            for message in batch:
                entry = decode_entry(message)
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
        if not state.is_open:
            raise ThreadClosedError(event.task, event.thread, state.outcome, state.summary)
        outside = [
            name for name in (event.sender, *event.mentions) if name not in state.participants
        ]
        if outside:
            raise NotAParticipantError(outside, event.task, event.thread, list(state.participants))

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
        key = (task, thread)
        state = self._threads.get(key)
        if state is None:
            state = ThreadState(task=task, thread=thread)
            await self._catch_up(state)
            state = self._threads.setdefault(key, state)
            if len(self._threads) > _CACHED_THREADS:
                self._threads.popitem(last=False)
        else:
            self._threads.move_to_end(key)
            if fresh:
                await self._catch_up(state)
        return state

    async def existing_thread(self, task: TaskId, thread: ThreadId) -> ThreadState:
        """Return a thread as the log has it now.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none.
        """
        state = await self.thread(task, thread, fresh=True)
        if not state.exists:
            await self._raise_not_found(task, thread)
        return state

    async def check_may_speak(self, task: TaskId, thread: ThreadId, name: AgentName) -> None:
        """Check that *name* could append to a thread as it is known here.

        Raises:
            TaskNotFoundError, ThreadNotFoundError, ThreadClosedError, NotAParticipantError.
        """
        state = await self.thread(task, thread)
        if not state.exists:
            await self._raise_not_found(task, thread)
        if not state.is_open:
            raise ThreadClosedError(task, thread, state.outcome, state.summary)
        if name not in state.participants:
            raise NotAParticipantError([name], task, thread, list(state.participants))

    def learn(self, recorded: Recorded) -> None:
        """Take in the event that opens a thread, so that it need not be read.

        Only an opening is taken: after it nothing can have been missed, since the first control
        event of a thread has no other before it.
        """
        event = recorded.event
        if isinstance(event.data, TaskOpened | ThreadOpened):
            key = (event.task, event.thread)
            if key not in self._threads:
                state = ThreadState(task=event.task, thread=event.thread)
                state.apply(recorded.seq, event)
                self._threads[key] = state

    async def threads(self, task: TaskId) -> Sequence[ThreadState]:
        """Read the state of every thread of a super-task."""
        states: dict[ThreadId, ThreadState] = {}
        async for entry in self._read(task_control_filter(task), 0):
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

    # reading

    async def read(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0
    ) -> AsyncIterator[Entry]:
        """Read a super-task, or one thread of it, in log order, to its end.

        Args:
            task: the super-task.
            thread: only this thread, when given.
            after: only what is later than this sequence.

        Cancellation: safe.
        """
        async for entry in self._read(_filter(task, thread), after):
            yield entry

    async def _read(self, filter_: SubjectFilter, after: int) -> AsyncIterator[Entry]:
        async for batch in self._backend.log.read(filter_, after, _NO_LIMIT):
            for message in batch:
                entry = decode_entry(message)
                if isinstance(entry, Rejected):
                    self.rejected += 1
                    _log.warning("not an event, skipped", seq=entry.seq, reason=entry.reason)
                yield entry

    async def openings(self, prefix: str = "") -> AsyncIterator[Recorded]:
        """Read the control events of every main thread; of tasks whose id begins with *prefix*."""
        async for entry in self._read(openings_filter(), 0):
            if isinstance(entry, Recorded) and entry.event.task.startswith(prefix):
                yield entry

    @asynccontextmanager
    async def following(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0, *, new: bool = False
    ) -> AsyncGenerator[AsyncIterator[Entry]]:
        """Read a super-task or thread and go on live; no gap, no duplicate.

        Args:
            task: the super-task.
            thread: only this thread, when given.
            after: only what is later than this sequence.
            new: nothing is there yet, so that only what comes from now on is awaited.

        Cancellation: safe; go on with the last sequence seen.
        """
        follower = _Follower(self._backend, _filter(task, thread), after)
        async with (
            self._backend.log.tail(follower.filter, follower.on_message, follower.on_loss),
            aclosing(follower.entries(read_first=not new)) as entries,
        ):
            yield entries


class _Follower:
    """History, then the tail; read again whenever the tail may have missed something."""

    def __init__(self, backend: Backend, filter_: SubjectFilter, after: int) -> None:
        self.filter = filter_
        self._backend = backend
        self._last = after
        self._tail: deque[StoredMessage] = deque()
        self._woken = asyncio.Event()
        self._lost = False

    def on_message(self, message: StoredMessage) -> None:
        if not self._backend.log.tail_is_whole:
            self._lost = True
        elif len(self._tail) >= _MAX_TAIL:
            # A slow reader: what is dropped here is read from the log when its turn comes.
            self._tail.clear()
            self._lost = True
        elif not self._lost:
            self._tail.append(message)
        self._woken.set()

    def on_loss(self) -> None:
        self._lost = True
        self._woken.set()

    def _has_news(self) -> bool:
        return self._lost or bool(self._tail)

    async def entries(self, *, read_first: bool) -> AsyncGenerator[Entry]:
        if read_first:
            self._lost = True
        patience = _FIRST_LOOK_S
        while True:
            if self._lost:
                self._lost = False
                self._tail.clear()
                async for batch in self._backend.log.read(self.filter, self._last, _NO_LIMIT):
                    for message in batch:
                        self._last = message.seq
                        yield decode_entry(message)
                continue
            while self._tail:
                message = self._tail.popleft()
                if message.seq > self._last:
                    self._last = message.seq
                    yield decode_entry(message)
            self._woken.clear()
            if self._has_news():
                continue
            try:
                async with asyncio.timeout(patience):
                    await self._woken.wait()
            except TimeoutError:
                # Interest may take a moment to reach another server: look now and then.
                self._lost = True
                patience = _LOOK_EVERY_S


def _filter(task: TaskId, thread: ThreadId | None) -> SubjectFilter:
    return task_filter(task) if thread is None else thread_filter(task, thread)


def _report_lost(future: asyncio.Future[Position]) -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.error("an observation was not stored", error=str(future.exception()))
