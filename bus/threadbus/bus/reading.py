"""Reading the log as events, to its end or on and on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from threadbus.bus._logging import log as _log
from threadbus.bus.following import NO_LIMIT, Entry, Follower, Look, Wanted, decode_entry
from threadbus.bus.ports import Backend, StoredMessage
from threadbus.schemas import (
    LOG_SUBJECTS,
    MAIN_THREAD,
    AgentName,
    Recorded,
    Rejected,
    SubjectFilter,
    TaskId,
    ThreadId,
    control_filter,
    openings_filter,
    parse_task_id,
    parse_thread_id,
    task_filter,
    thread_filter,
)


class LogReader:
    """The log as whoever only reads sees it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.rejected = 0
        """How many messages that are no events were met on this connection."""

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

    async def _read(self, filter_: SubjectFilter, after: int) -> AsyncGenerator[Entry]:
        async with aclosing(self._backend.log.read(filter_, after, NO_LIMIT)) as batches:
            async for batch in batches:
                for message in batch:
                    yield self._decode(message)

    async def stored_at_seq(self, seq: int) -> StoredMessage | None:
        """Return the message at a sequence, whatever it is; None where there is none."""
        async with aclosing(self._backend.log.read(LOG_SUBJECTS, seq - 1, 1)) as batches:
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
            _log.warning("not an event, skipped", seq=entry.seq, reason=entry.reason)
        return entry

    async def openings(self, prefix: str = "", after: int = 0) -> AsyncIterator[Recorded]:
        """Read the control events of every main thread.

        Args:
            prefix: only of tasks whose id begins so.
            after: only what is later than this sequence.
        """
        async for entry in self._read(openings_filter(), after):
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

    def following_all(self, after: int = 0) -> Follower:
        """Read the whole log and go on live; no gap, no duplicate.

        Args:
            after: only what is later than this sequence.

        Cancellation: safe; go on with the last sequence seen.
        """
        return Follower(self._backend, LOG_SUBJECTS, after, self._decode)


def _filter(task: TaskId, thread: ThreadId | None) -> SubjectFilter:
    # A wildcard or a space in an id would mean something else to the server.
    parse_task_id(task)
    return task_filter(task) if thread is None else thread_filter(task, parse_thread_id(thread))
