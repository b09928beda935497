"""Reading the log as events, to its end or on and on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from heapq import heapify, heappop, heapreplace

from threadbus.bus._logging import ThinnedLog
from threadbus.bus.following import NO_LIMIT, Entry, Follower, Look, Wanted, decode_entry
from threadbus.bus.ports import Backend, StoredMessage
from threadbus.schemas import (
    LOG_SUBJECTS,
    MAIN_THREAD,
    AgentName,
    LogPlaces,
    Recorded,
    Rejected,
    SubjectFilter,
    TaskId,
    ThreadId,
    control_filter,
    openings_filter,
    parse_task_id,
    parse_thread_id,
    partition_of_seq,
    task_filter,
    thread_filter,
)


class LogReader:
    """The log as whoever only reads sees it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.rejected = 0
        """How many messages that are no events were met on this connection."""
        self._skipped = ThinnedLog("not an event, skipped")

    def read(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0
    ) -> AsyncGenerator[Entry]:
        """Read a super-task, or one thread of it, in log order, to its end.

        Args:
            task: the super-task.
            thread: only this thread, when given.
            after: only what is later than this sequence.

        Cancellation: safe.
        """
        return self._read(_filter(task, thread), after)

    async def _read(
        self, filter_: SubjectFilter, after: int, partition: int | None = None
    ) -> AsyncGenerator[Entry]:
        log = self._backend.log
        async with aclosing(log.read(filter_, after, NO_LIMIT, partition)) as batches:
            async for batch in batches:
                for message in batch:
                    yield self._decode(message)

    @property
    def partitions(self) -> int:
        """Over how many streams the log is spread."""
        return self._backend.log.partitions

    async def stored_at_seq(self, seq: int) -> StoredMessage | None:
        """Return the message at a sequence, whatever it is; None where there is none."""
        there = self._backend.log.read(LOG_SUBJECTS, seq - 1, 1, partition_of_seq(seq))
        async with aclosing(there) as batches:
            async for batch in batches:
                return batch[0] if batch[0].seq == seq else None
        return None

    async def stored_by_other(self, seq: int, sender: AgentName) -> str:
        """Return who else than *sender* stored the message at *seq*; empty where nobody else."""
        message = await self.stored_at_seq(seq)
        if message is not None and message.relayed:
            return f"whoever asked for what is at sequence {seq}"
        by = sender if message is None else f"{message.subject}....".split(".")[4]
        return "" if by == sender else by

    def _decode(self, message: StoredMessage) -> Entry:
        entry = decode_entry(message)
        if isinstance(entry, Rejected):
            self.rejected += 1
            self._skipped.warning(seq=entry.seq, reason=entry.reason)
        return entry

    async def openings(
        self, prefix: str = "", after: LogPlaces | None = None
    ) -> AsyncGenerator[Recorded]:
        """Read the control events of every main thread, in log order; across partitions by time.

        Args:
            prefix: only of tasks whose id begins so.
            after: only what is later than these places; all when absent.
        """
        places = after or LogPlaces()
        filter_ = openings_filter()
        every = [
            self._read(filter_, places.after(number), number) for number in range(self.partitions)
        ]
        async with aclosing(by_time(every)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded) and entry.event.task.startswith(prefix):
                    yield entry

    def following(
        self,
        task: TaskId,
        thread: ThreadId | None = None,
        after: int = 0,
        *,
        new: bool = False,
        controls: bool = False,
        wanted: Wanted | None = None,
        first_look: Look | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Entry]]:
        """Read a super-task or thread and go on live; no gap, no duplicate.

        Args:
            task: the super-task.
            thread: only this thread, when given.
            after: only what is later than this sequence.
            new: nothing is there yet, so that only what comes from now on is awaited.
            controls: only the control events of *thread*.
            wanted: says of a message whether it matters; the others are passed over.
            first_look: awaited once, when nothing has come for a moment.

        Cancellation: safe; go on with the last sequence seen.
        """
        filter_ = _filter(task, thread)
        if controls:
            filter_ = control_filter(task, thread or MAIN_THREAD)
        return Follower(
            self._backend,
            filter_,
            after,
            self._decode,
            new=new,
            wanted=wanted,
            first_look=first_look,
        )

    def following_all(self, after: int = 0, partition: int = 0) -> Follower:
        """Read a whole partition of the log and go on live; no gap, no duplicate.

        Args:
            after: only what is later than this sequence.
            partition: which; there is one where the log is one stream.

        Cancellation: safe; go on with the last sequence seen.
        """
        return Follower(self._backend, LOG_SUBJECTS, after, self._decode, partition=partition)


async def by_time(every: Sequence[AsyncGenerator[Entry]]) -> AsyncGenerator[Entry]:
    """Merge what comes from several partitions by the time at which the server stored it."""
    async with AsyncExitStack() as stack:
        heads: list[tuple[int, int, Entry]] = []
        for number, entries in enumerate(every):
            await stack.enter_async_context(aclosing(entries))
            async for entry in entries:
                heads.append((entry.stored_at, number, entry))
                break
        heapify(heads)
        while heads:
            _, number, entry = heads[0]
            yield entry
            try:
                later = await anext(every[number])
            except StopAsyncIteration:
                heappop(heads)
            else:
                heapreplace(heads, (later.stored_at, number, later))


def _filter(task: TaskId, thread: ThreadId | None) -> SubjectFilter:
    # A wildcard or a space in an id would mean something else to the server.
    parse_task_id(task)
    return task_filter(task) if thread is None else thread_filter(task, parse_thread_id(thread))
