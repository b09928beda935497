"""Reading one run for a form: how far, which part, redacted or not, folded into a story or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final, NamedTuple

from threadbus.replay.export import FileSource
from threadbus.replay.lookup import unknown_task
from threadbus.replay.redact import Redactor
from threadbus.replay.selection import Sieve
from threadbus.replay.source import LogItem, Source, closing
from threadbus.replay.story import Entry, Timeline
from threadbus.replay.timeline import TimelineFold
from threadbus.schemas import Recorded, TaskId

QUIET_S: Final = 0.3
"""Seconds without an entry, after the close, that end following when no turn runs any more."""

GRACE_S: Final = 1.0
"""The same while a turn runs: its end may still be told."""

LONGEST_REST_S: Final = 10.0
"""Seconds after the close that following goes on at most."""

_MAX_HELD: Final = 1_000

Progress = Callable[[int], None]
"""Called now and then with the number of entries read so far."""


class Read(NamedTuple):
    """An entry of the log, what it became in the story, and whether it is asked for."""

    item: LogItem
    entry: Entry | None
    is_taken: bool


class Reading:
    """Feeds a fold from a source, with the bounds that a request sets.

    Args:
        source: where the run is.
        task: which.
        fold: makes the story; each entry is in it before it is given on.
        sieve: what is asked for.
        redactor: replaces what must not be seen; after the sieve, so that what is looked for is
            found.
        follow: whether to go on live.
        limit: entries to read at most.
        needs_story: whether the fold is fed at all; following needs it in any case.
    """

    def __init__(
        self,
        source: Source,
        task: TaskId,
        fold: TimelineFold,
        sieve: Sieve,
        redactor: Redactor | None = None,
        *,
        follow: bool = False,
        limit: int | None = None,
        needs_story: bool = True,
    ) -> None:
        self.fold = fold
        self.sieve = sieve
        self._source = source
        self._task = task
        self._redactor = redactor
        self._follow = follow
        self._limit = limit
        self._is_folded = needs_story or follow

    @property
    def redacted(self) -> str:
        """How far what is read is redacted, now or before; known once something was read."""
        if self._redactor is not None:
            return self._redactor.level.value
        return self._source.redacted if isinstance(self._source, FileSource) else ""

    def chosen(self) -> Timeline:
        """Return what is asked for of the story so far.

        Raises:
            UnknownFilterError: the run does not have it.
        """
        return self.sieve.of(self.fold.timeline)

    async def items(self, progress: Progress) -> AsyncGenerator[Read]:
        """Read entry by entry, to the end, the close of the task that is followed, or the limit.

        Raises:
            UnknownTaskError: the source has nothing of the task.

        Cancellation: safe.
        """
        if self._follow:
            await self._check_exists()
            entries = _until_over(self._source.follow(self._task), self.fold)
        else:
            entries = _from_first_event(self._source.read(self._task))
        count = 0
        async with closing(entries):
            async for item in entries:
                if self._limit is not None and count >= self._limit:
                    self.fold.timeline.is_complete = False
                    return
                count += 1
                if count % 1000 == 0:
                    progress(count)
                yield self._take(item)
                if self._follow and count == self._limit:
                    # Whether there would be more, only waiting could tell.
                    return
        if not count:
            raise await unknown_task(self._source, self._task)

    def _take(self, item: LogItem) -> Read:
        is_taken = self.sieve.takes(item)
        if self._redactor is not None:
            item = self._redactor.redact(item)
        entry = None
        if self._is_folded:
            entry = self.fold.apply(item)
            self.fold.timeline.redacted = self.redacted
            if is_taken:
                self.sieve.note(item, entry)
        return Read(item, entry, is_taken)

    async def _check_exists(self) -> None:
        """Following a task that does not exist would wait for ever."""
        async with closing(_from_first_event(self._source.read(self._task))) as items:
            async for _ in items:
                return
        raise await unknown_task(self._source, self._task)


async def _from_first_event(entries: AsyncIterator[LogItem]) -> AsyncGenerator[LogItem]:
    """Pass entries on if there is an event among them: reports alone are no run."""
    held: list[LogItem] | None = []
    async with closing(entries):
        async for item in entries:
            if held is not None:
                held.append(item)
                if not isinstance(item, Recorded) and len(held) < _MAX_HELD:
                    continue
                for one in held:
                    yield one
                held = None
            else:
                yield item


async def _until_over(
    entries: AsyncIterator[LogItem], fold: TimelineFold
) -> AsyncGenerator[LogItem]:
    """Pass entries on until the task is closed and nothing more comes of its turns."""
    clock = asyncio.get_running_loop().time
    last: float | None = None
    async with closing(entries):
        while True:
            deadline = None
            if fold.timeline.closed_at is not None:
                last = last or clock() + LONGEST_REST_S
                deadline = min(last, clock() + (GRACE_S if fold.running else QUIET_S))
            try:
                async with asyncio.timeout_at(deadline):
                    item = await anext(entries)
            except (TimeoutError, StopAsyncIteration):
                return
            yield item
