"""Whoever reads all of a log that is several streams: consumers, lists, traces, counters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.bus_env import (
    events_of,
    opened,
    soon,
    take,
)
from tests.support.busreplay import busreplay
from tests.support.spread_bus import PARTITIONS, in_each_partition, several
from threadbus.agents.monitoring import Watch, read_counts, watching
from threadbus.bus import (
    LogConsumer,
    ReadError,
)
from threadbus.bus.server import EmbeddedServer
from threadbus.replay.tracing.live import LiveExporter
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.partitions import open_exporters
from threadbus.schemas import (
    MAIN_THREAD,
    LogPlaces,
    Recorded,
    partition_of_seq,
    partition_start,
)


async def test_the_whole_log_is_read_by_partitions() -> None:
    """Each has a consumer that goes on where it was done; without a partition there is none."""
    async with EmbeddedServer() as server, several(server) as (user, _, _):
        tasks = await in_each_partition(user, "web")
        for number, task in enumerate(tasks):
            await user.send(task, MAIN_THREAD, "Hello.")
            async with user.consuming("index", partition=number) as consumer:
                assert consumer.position == partition_start(number)
                entries = await take(consumer, 2)
                assert {e.event.task for e in entries if isinstance(e, Recorded)} >= {task}
                await consumer.commit(entries[0].seq)
        for number in range(PARTITIONS):
            async with user.consuming("index", partition=number) as consumer:
                assert consumer.position == partition_start(number) + 1
                assert await consumer.end() >= consumer.position
        for wrong in (None, PARTITIONS, -1):
            with pytest.raises(ReadError, match="partitions 0 to 2"):
                async with user.consuming("index", partition=wrong):
                    pass


async def test_lists_of_tasks_are_in_the_order_of_time() -> None:
    """The newest first from whichever partition; who keeps a list reads on without a repetition."""
    async with EmbeddedServer() as server, several(server) as (user, _, _):
        first = await in_each_partition(user, "web")
        places = LogPlaces()
        async for recorded in user.tasks.controls():
            places.take(recorded.seq)
        later = [await opened(user, "web") for _ in range(5)]
        listed = [summary.task for summary in await user.tasks.list()]
        new = [recorded.event.task async for recorded in user.tasks.controls(places)]

        assert listed[:5] == later[::-1]
        assert set(first) <= set(listed)
        assert new == later
        assert await user.find_tasks(first[1]) == [first[1]]
        found = await asyncio.to_thread(busreplay, first[2], "--url", server.url)
        assert found.returncode == 0, found.stderr
        checked = await asyncio.to_thread(busreplay, "verify", first[2], "--url", server.url)
        assert checked.returncode == 0, checked.stdout


async def test_traces_and_counters_take_in_every_partition(tmp_path: Path) -> None:
    """What is exported and counted is the whole log once, also when it is begun a second time."""
    async with EmbeddedServer() as server, several(server) as (user, _, _):
        tasks = await in_each_partition(user, "web")
        for task in tasks:
            await user.tasks.cancel(task)
        spans: list[Span] = []

        async def send(batch: Sequence[Span]) -> None:
            spans.extend(batch)

        async def export() -> tuple[int, tuple[int, ...]]:
            def make(consumer: LogConsumer) -> LiveExporter:
                return LiveExporter(user, consumer, send)

            async with open_exporters(user, "exporter", make) as exporters:
                await soon(exporters.run(lambda: True))
                return exporters.done.events, exporters.positions

        every = [await events_of(user, summary.task) for summary in await user.tasks.list()]
        total = sum(len(events) for events in every)
        first, again = await export(), await export()
        watch = Watch(state=tmp_path / "counts.json", every_s=60)
        counted: list[int] = []
        for _ in range(2):
            async with watching(user, watch) as watcher:
                await soon(watcher.counted.wait())
            counts = read_counts(tmp_path / "counts.json")
            assert counts is not None
            counted.append(sum(counts.numbers["events"].values()))

        assert first[0] == total
        assert {partition_of_seq(seq) for seq in first[1]} == set(range(PARTITIONS))
        assert again == (0, first[1])
        assert {span.trace for span in spans} >= set(tasks)
        assert counted == [total, total]
        assert len(await user.operations.recent()) == total
