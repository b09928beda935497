"""The live exporter: the whole log in, spans out as they become final, whatever dies in between.

Nothing of a super-task is kept on disk. What is known of one is computed from its log, so it can
be dropped when memory is short and computed again when its next event comes. After a crash the
exporter goes on where it was done; what it had sent beyond that place is sent again, and is the
same bytes, which a viewer shows once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from threadbus.bus import SteadyLog
from threadbus.replay.errors import CollectorRefusedError, CollectorUnreachableError
from threadbus.replay.finding import Finding
from threadbus.replay.source import LogItem, closing
from threadbus.replay.tracing.examining import Bounded, Examine
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.otlp import MAX_BATCH_BYTES, size_of
from threadbus.replay.tracing.spans import SETTLE_NS, SpanFold
from threadbus.schemas import Recorded, TaskId, TaskOpened

if TYPE_CHECKING:
    from threadbus.bus import Bus, LogConsumer

MAX_TASKS: Final = 1_000
"""Super-tasks of which the open spans are kept in memory."""

MAX_WEIGHT: Final = 500_000
"""Ids of events that are kept in memory, of all super-tasks together."""

_FLUSH_S: Final = 0.5
_LOOK_S: Final = 0.5
_COMMIT_EVERY: Final = 1_000
_AHEAD: Final = 256
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_FATAL: Final = frozenset({401, 403, 404, 405, 415})
_log: Final = SteadyLog("threadbus.replay")

Send: TypeAlias = Callable[[Sequence[Span]], Awaitable[None]]
Watch: TypeAlias = Callable[[Sequence[Span]], None]
"""Is told the spans that become final: metrics."""


class Exported(msgspec.Struct):
    """What a live exporter has done so far."""

    events: int = 0
    spans: int = 0
    traces: int = 0
    """Super-tasks whose root is final."""
    rebuilt: int = 0
    """Super-tasks whose earlier events were read again."""
    refused: int = 0
    """Spans that the collector would not take; they are lost to it."""


class LiveExporter:
    """Follows the log of a bus and sends what becomes final.

    Args:
        bus: an open bus.
        consumer: where the log comes from, and where it is noted how far it was exported.
        send: takes spans; sends them again and again while nobody answers.
        examine: finds what went wrong in a run that has ended.
        content: whether spans carry the beginnings of what was said.
        watch: is told the spans, for metrics.
        keep: which spans are exported; all when absent.
        max_tasks: super-tasks that are kept in memory at most.
    """

    def __init__(
        self,
        bus: Bus,
        consumer: LogConsumer,
        send: Send,
        *,
        examine: Examine | None = None,
        content: bool = False,
        watch: Watch | None = None,
        keep: Callable[[Span], bool] | None = None,
        max_tasks: int = MAX_TASKS,
    ) -> None:
        self._bus = bus
        self._consumer = consumer
        self._send = send
        self._examine = examine
        self._content = content
        self._watch = watch
        self._keep = keep
        self._max_tasks = max_tasks
        self._folds: OrderedDict[TaskId, SpanFold] = OrderedDict()
        self._closing: dict[TaskId, tuple[int, int]] = {}
        """Closed and not settled: when it was closed, and the sequence of that."""
        self._batch: list[Span] = []
        self._bytes = 0
        self._flush_at: float | None = None
        self._commit_due = 0
        self._log_time = 0
        self._taken_to = consumer.position
        self.done = Exported()

    async def run(self, until: Callable[[], bool] | None = None) -> None:
        """Export until cancelled, or until *until* says at the end of the log that it is enough.

        Raises:
            CollectorRefusedError: the collector wants a key, or is none.
            ReadError: the server refused to be read.

        Cancellation: safe; what was not noted as done is exported again the next time.
        """
        ahead: asyncio.Queue[LogItem] = asyncio.Queue(_AHEAD)
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(self._read(ahead), name="threadbus.trace.read")
                await self._work(ahead, until)
                reading.cancel()
        except ExceptionGroup as group:
            # One of the two failed, and took the other along.
            raise group.exceptions[0] from None

    async def _read(self, ahead: asyncio.Queue[LogItem]) -> None:
        """Read the log in a task of its own: to look at the clock must not break off a read."""
        async for entry in self._consumer:
            await ahead.put(entry)

    async def _work(self, ahead: asyncio.Queue[LogItem], until: Callable[[], bool] | None) -> None:
        clock = asyncio.get_running_loop().time
        look_at = clock()
        while True:
            try:
                entry = ahead.get_nowait()
            except asyncio.QueueEmpty:
                entry = None
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(self._flush_at or look_at, look_at)):
                        entry = await ahead.get()
            if entry is not None:
                await self._take(entry)
                self._taken_to = entry.seq
            now = clock()
            if self._bytes >= MAX_BATCH_BYTES or (self._flush_at and now >= self._flush_at):
                await self.flush()
            if now >= look_at:
                look_at = now + _LOOK_S
                await self._settle_late()
                if until is not None and until() and await self._is_at_end():
                    await self.flush()
                    return

    async def _take(self, entry: LogItem) -> None:
        self.done.events += 1
        self._commit_due += 1
        self._log_time = max(self._log_time, entry.stored_at)
        if isinstance(entry, Recorded):
            fold = await self._fold(entry)
            await self._settle_if_due(fold, entry.stored_at)
            was_open = fold.closed_at is None
            self._add(fold.apply(entry))
            if was_open and fold.closed_at is not None:
                self._closing[entry.event.task] = (fold.closed_at, entry.seq)
            await self._settle_if_due(fold, entry.stored_at)
        if self._commit_due >= _COMMIT_EVERY:
            await self._settle_overdue(self._log_time)
            if not self._batch:
                await self._commit()

    async def _fold(self, entry: Recorded) -> SpanFold:
        """Return what is known of a super-task up to an entry, read again where it was dropped."""
        task = entry.event.task
        fold = self._folds.get(task)
        if fold is None:
            is_first = isinstance(entry.event.data, TaskOpened)
            fold = SpanFold(content=self._content)
            if not is_first:
                fold = await self._rebuilt(task, entry.seq)
            self._folds[task] = fold
            while len(self._folds) > 1 and (
                len(self._folds) > self._max_tasks or self._weight > MAX_WEIGHT
            ):
                self._folds.popitem(last=False)
        else:
            self._folds.move_to_end(task)
        return fold

    @property
    def _weight(self) -> int:
        return sum(fold.weight for fold in self._folds.values())

    async def _rebuilt(self, task: TaskId, before: int) -> SpanFold:
        fold = SpanFold(content=self._content)
        async with closing(self._bus.read(task)) as entries:
            async for entry in entries:
                if entry.seq >= before:
                    break
                # The spans went out when they became final.
                if fold.due(entry.stored_at):
                    fold.settle()
                fold.apply(entry)
                if fold.due(entry.stored_at):
                    fold.settle()
        if fold.task is not None:
            self.done.rebuilt += 1
        return fold

    # the end of a super-task

    async def _settle_if_due(self, fold: SpanFold, now: int) -> None:
        if not fold.due(now) or fold.task is None:
            return
        findings = await self._findings(fold.task, fold.last_seq)
        self._add(fold.settle(findings))
        self._closing.pop(fold.task, None)
        self.done.traces += 1

    async def _settle_late(self) -> None:
        """End what was closed and whose last turns did not end in time."""
        await self._settle_overdue(self._log_time)
        if self._closing:
            now = await self._consumer.server_time()
            # What was stored before that time is before this end, and has to be read first.
            if await self._is_at_end():
                await self._settle_overdue(now)

    async def _settle_overdue(self, now: int) -> None:
        for task in [task for task, (at, _) in self._closing.items() if now > at + SETTLE_NS]:
            fold = self._folds.get(task)
            if fold is None:
                fold = self._folds[task] = await self._rebuilt(task, self._taken_to + 1)
            await self._settle_if_due(fold, now)
            self._closing.pop(task, None)

    async def _is_at_end(self) -> bool:
        return await self._consumer.end() <= self._taken_to

    async def _findings(self, task: TaskId, last: int) -> Sequence[Finding]:
        """Look for what went wrong; a run that ends is read once more for it."""
        if self._examine is None:
            return ()
        examiner = Bounded(self._examine)
        async with closing(self._bus.read(task)) as entries:
            async for entry in entries:
                if entry.seq > last:
                    break
                examiner.apply(entry)
        return examiner.findings()

    # out

    def _add(self, spans: Sequence[Span]) -> None:
        if self._watch is not None and spans:
            self._watch(spans)
        for span in spans:
            if self._keep is None or self._keep(span):
                self._batch.append(span)
                self._bytes += size_of(span)
        if self._batch and self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().time() + _FLUSH_S

    async def flush(self) -> None:
        """Send what is final, and note how far the log is done.

        Raises:
            CollectorRefusedError: the collector wants a key, or is none.

        Cancellation: it is sent again the next time.
        """
        batch, self._batch, self._bytes, self._flush_at = self._batch, [], 0, None
        if batch:
            try:
                await self._send(batch)
                self.done.spans += len(batch)
            except CollectorRefusedError as error:
                if error.status in _FATAL:
                    raise
                # Sent again it would be refused again, and nothing would go on.
                self.done.refused += len(batch)
                _log.error("spans are left out", count=len(batch), reason=str(error))
        await self._commit()

    async def _commit(self) -> None:
        self._commit_due = 0
        done = self._taken_to
        if self._closing:
            # After a crash the last spans of these have to be computed again.
            done = min(done, min(seq for _, seq in self._closing.values()) - 1)
        await self._consumer.commit(done)


def patient(send: Send) -> Send:
    """Return *send* as one that goes on while nobody answers, and says so."""

    async def send_patiently(spans: Sequence[Span]) -> None:
        pause, told_at = _FIRST_PAUSE_S, 0.0
        while True:
            try:
                return await send(spans)
            except CollectorUnreachableError as error:
                if time.monotonic() > told_at + _LONGEST_PAUSE_S:
                    told_at = time.monotonic()
                    _log.warning("waiting for the collector", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    return send_patiently
