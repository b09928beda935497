"""Follows the log and looks at the server, for whoever scrapes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from threadbus.agents.monitoring.counts import Counts, LogCounter
from threadbus.agents.monitoring.errors import CountsFileError
from threadbus.agents.monitoring.exposition import Shown
from threadbus.agents.monitoring.keeping import read_counts, write_counts
from threadbus.agents.monitoring.sampling import Sample, take_sample
from threadbus.bus import Bus, BusError, Health, ReadError, SteadyLog

_AT_A_TIME: Final = 256
_LOOK_S: Final = 10.0
_log: Final = SteadyLog("threadbus.agents")


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """How to watch a bus."""

    every_s: float = 15.0
    """Seconds between two looks at the server, and between two writes of the file."""
    state: Path | None = None
    """The file of the counters; without one the whole log is counted at each start."""
    from_now: bool = False
    """Begin at the end of the log, with counters of 0; what a file keeps counts more."""
    max_agents: int = 200
    """Agents that have a label of their own."""
    patient: bool = True
    """Wait for a log that is not there yet, or cannot be read for a while."""


class Watcher:
    """What is known of a bus. Made by :func:`watching`."""

    def __init__(self, bus: Bus, watch: Watch) -> None:
        self._bus = bus
        self._watch = watch
        self._counter = LogCounter(Counts(), max_agents=watch.max_agents)
        self._targets: dict[int, int] | None = None
        self._sample: Sample | None = None
        self._sampled_at = 0.0
        self._is_up = False
        self.counted = asyncio.Event()
        """Set once the log was counted to the end that it had at the start."""
        self.sampled = asyncio.Event()
        """Set once the server was looked at."""

    @property
    def is_ready(self) -> bool:
        """Whether everything is known, and the last look succeeded."""
        return self._is_up and self.counted.is_set()

    def shown(self) -> Shown:
        """Return a copy of what is known, for a scrape."""
        counts = self._counter.counts if self.counted.is_set() else None
        return Shown(
            counts, self._counter.tasks_open, self._sample, self._sampled_at, is_up=self._is_up
        )

    def start(self) -> None:
        """Read the file of the counters, where there is one, and see that it can be written.

        Raises:
            CountsFileError: it cannot be used.
        """
        path = self._watch.state
        if path is not None:
            kept = read_counts(path)
            if kept is None:
                write_counts(path, Counts())
            else:
                self._counter = self._counting(kept)

    def _counting(self, counts: Counts) -> LogCounter:
        return LogCounter(counts, max_agents=self._watch.max_agents)

    async def count(self) -> None:
        """Count the log, and what is added to it, until cancelled.

        Raises:
            ReadError: the log cannot be read, and is not to be waited for.
        """
        while True:
            try:
                await self._find_place()
                await self._follow()
            except ReadError as error:
                if not self._watch.patient:
                    raise
                _log.warning("the log cannot be read, trying on", reason=str(error))
            await asyncio.sleep(self._watch.every_s)

    async def _find_place(self) -> None:
        """Find where to begin: behind what is counted, if that is of this log."""
        every = range(self._bus.partitions)
        ends = [await self._bus.operations.last_seq(number) for number in every]
        log = _identity(await self._bus.operations.health())
        counts = self._counter.counts
        is_new = not counts.log and not counts.seq
        if not is_new and (
            any(counts.counted_to(number) > end for number, end in enumerate(ends))
            or counts.log != log
        ):
            _log.warning("the counters are of another log, counting this one", seq=counts.seq)
            is_new = True
        if is_new:
            counts = Counts(log=log)
            if self._watch.from_now:
                counts.since = time.time_ns()
                for number, end in enumerate(ends):
                    counts.move(number, end)
            self._counter = self._counting(counts)
        # What was the last may have been taken away since, by age for instance.
        lasts = [await self._bus.operations.recent(1, number) for number in every]
        self._targets = {number: last[-1].seq for number, last in enumerate(lasts) if last}
        self._look_whether_counted()

    async def _follow(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._bus.partitions):
                    tasks.create_task(self._follow_one(number), name=f"threadbus.count[{number}]")
        except ExceptionGroup as group:
            # One failed, and took the others along.
            raise group.exceptions[0] from None

    async def _follow_one(self, partition: int) -> None:
        after = self._counter.counts.counted_to(partition)
        async with self._bus.operations.following(after, partition) as entries:
            number = 0
            async for entry in entries:
                self._counter.take(entry)
                self._look_whether_counted()
                number += 1
                if number % _AT_A_TIME == 0:
                    # What is read together comes without a pause, and a scrape waits.
                    await asyncio.sleep(0)

    def _look_whether_counted(self) -> None:
        counts = self._counter.counts
        if self._targets is not None and all(
            counts.counted_to(number) >= target for number, target in self._targets.items()
        ):
            self._targets = None
            self.counted.set()

    async def look(self) -> None:
        """Look at the server now and then, until cancelled."""
        while True:
            await self.look_once()
            await asyncio.sleep(self._watch.every_s)
            self.save()

    async def look_once(self) -> None:
        """Look at the server; where it does not answer, what was seen before stays."""
        try:
            async with asyncio.timeout(_LOOK_S):
                self._sample = await take_sample(
                    self._bus, lambda agent: self._counter.label("agent", agent)
                )
        except (BusError, TimeoutError) as error:
            self._is_up = False
            _log.warning("the server was not looked at", reason=str(error) or "no answer in time")
        else:
            self._is_up = True
            self._sampled_at = time.time()
        self.sampled.set()

    def save(self) -> None:
        """Write the counters to the file, where there is one."""
        if self._watch.state is None:
            return
        try:
            write_counts(self._watch.state, self._counter.counts)
        except CountsFileError as error:
            # They go on in memory; the next start counts what the file does not have.
            _log.warning("the counters were not written", reason=str(error))


@asynccontextmanager
async def watching(bus: Bus, watch: Watch) -> AsyncGenerator[Watcher]:
    """Watch a bus for as long as the context lasts.

    Raises:
        CountsFileError: the file of the counters cannot be used.
        ReadError: the log cannot be read, and is not to be waited for (in a group).
    """
    watcher = Watcher(bus, watch)
    watcher.start()
    async with asyncio.TaskGroup() as tasks:
        work = [
            tasks.create_task(watcher.count(), name="threadbus.metrics.count"),
            tasks.create_task(watcher.look(), name="threadbus.metrics.look"),
        ]
        try:
            yield watcher
        finally:
            for task in work:
                task.cancel()
            watcher.save()


def _identity(health: Health) -> dict[str, int]:
    """Say which log it is: the streams that inboxes are filled from, and when each was made."""
    filled = {stream.name for stream in health.streams if stream.sources}
    sources = {source.stream for stream in health.streams for source in stream.sources}
    return {
        stream.name: stream.created_at
        for stream in health.streams
        if stream.name in sources - filled
    }
