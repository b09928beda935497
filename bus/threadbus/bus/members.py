"""Whose word counts: who takes part in each thread as of a point of the log.

The server keeps an agent from speaking under another name, and the guard keeps an honest one from
speaking where it does not take part. What a stranger puts into the log past both is passed over
here, by everybody who waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from threadbus.bus.following import Entry
from threadbus.bus.log import EventLog
from threadbus.bus.state import ThreadState
from threadbus.schemas import EventClass, EventId, Recorded, TaskId, ThreadId


class Members:
    """Folds a super-task while it is read, and says of each event whether it counts."""

    def __init__(self, log: EventLog, task: TaskId, after: int = 0) -> None:
        """Begin at a point of the log.

        Args:
            log: where the state of a thread before that point is read from.
            task: the super-task.
            after: the sequence after which it is read.
        """
        self._log = log
        self._task = task
        self._after = after
        self._threads: dict[ThreadId, ThreadState] = {}
        self._seen: set[EventId] = set()

    async def take(self, recorded: Recorded) -> ThreadState | None:
        """Fold an event in.

        Returns:
            Its thread as it is with the event; None where the event does not count: its sender
            is outside, or its id was there before. Observations count whoever made them.
        """
        event = recorded.event
        if event.id in self._seen:
            return None
        self._seen.add(event.id)
        state = self._threads.get(event.thread) or await self.thread(event.thread)
        event_class = event.event_class
        if event_class is EventClass.CTL:
            ignored = state.ignored
            state.apply(recorded.seq, event)
            return state if state.ignored == ignored else None
        if event_class is EventClass.OBS or event.sender in state.participants:
            return state
        return None

    async def thread(self, thread: ThreadId) -> ThreadState:
        """Return a thread as it is with what was taken so far."""
        state = self._threads.get(thread)
        if state is None:
            state = await self._log.thread_at(self._task, thread, self._after)
            self._threads[thread] = state
        return state


class Counted(AsyncIterator[Recorded]):
    """The events that count, until a thread ends that the reader cannot do without.

    Not a generator: one that is left half read is closed by a task, for each wait.
    """

    def __init__(
        self,
        entries: AsyncIterator[Entry],
        members: Members,
        ends: set[ThreadId],
        *,
        known_open: bool = False,
    ) -> None:
        """Begin.

        Args:
            entries: what is read.
            members: says which of them count.
            ends: the threads whose end is the end; looked at anew each time.
            known_open: they need not be looked at before the first event.
        """
        self._entries = entries
        self._members = members
        self._ends = ends
        self._given: ThreadState | None = None
        self._started = known_open

    async def __anext__(self) -> Recorded:
        """Return the next event that counts.

        Raises:
            ThreadClosedError: a thread in *ends* has closed; its closing event was given before.

        Cancellation: safe.
        """
        if not self._started:
            for thread in self._ends:
                (await self._members.thread(thread)).check_open()
            self._started = True
        if self._given is not None and self._given.thread in self._ends:
            self._given.check_open()
        while True:
            entry = await anext(self._entries)
            if isinstance(entry, Recorded):
                self._given = await self._members.take(entry)
                if self._given is not None:
                    return entry
