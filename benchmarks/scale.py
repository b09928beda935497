"""What growth costs: bytes on disk and in memory of events, subjects, inboxes and partitions.

Sizes are of the server, whose memory is what Linux says is resident. Times are given only as
ratios of two of the same run. `--write docs/operations/scale.md` puts what was measured, and the
model that follows from it, into that page.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.figures import say
from benchmarks.growing import Grown, agent, grown
from benchmarks.processes import RUNNER_AGENT, running
from benchmarks.scale_model import Costs, costs_table, model_table
from benchmarks.writing import write_between
from threadbus.bus import connect
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    MessagePosted,
    TaskId,
    TextPart,
    encode_event,
    inbox_filter,
    make_event,
    new_task_id,
)

_TEXT: Final = "What was found, where, and what follows from it for the next one to do. " * 6
_EVENTS: Final = 100_000
_INBOXES: Final = 1_000
_ASKED: Final = 20
_PARTITIONS: Final = 8
_HUB: Final = 4
_WAIT: Final = timedelta(seconds=60)
_CREATING: Final = 32

Sizes: TypeAlias = dict[str, int]


def _events(tasks: list[TaskId], count: int, *mentions: AgentName) -> Iterator[Event]:
    for number in range(count):
        yield make_event(
            MessagePosted(parts=(TextPart(_TEXT),)),
            task=tasks[number % len(tasks)],
            thread=MAIN_THREAD,
            sender=AgentName("user"),
            mentions=mentions,
        )


def _tasks(count: int) -> list[TaskId]:
    return [new_task_id() for _ in range(count)]


@dataclass
class _Filled:
    """A log of many events, and the server before and after a crash."""

    disk_bytes: float
    grown_bytes: float
    """Memory that the server has more of after the restart than when it was empty."""
    restart_s: float


async def _filled(count: int, subjects: int) -> _Filled:
    """Fill a log with events on so many subjects, kill the server, and start it again."""
    async with grown() as bus:
        empty = await _restart(bus)
        before = bus.resident_bytes()
        await bus.publish(_events(_tasks(subjects), count), ["BUS"])
        state = await bus.state("BUS")
        restart_s = await _restart(bus)
        return _Filled(state["bytes"] / count, bus.resident_bytes() - before, restart_s / empty)


async def _restart(bus: Grown) -> float:
    await bus.server.kill()
    started = time.perf_counter()
    await bus.server.start()
    await bus.reconnect()
    await bus.state("BUS")
    return time.perf_counter() - started


async def _question() -> tuple[float, float, float]:
    """Return the events, subjects and mentions of a question that one agent answers."""
    async with grown() as bus, running("agent", bus.server.url):
        async with connect(bus.server.url, name="user") as user:
            for _ in range(_ASKED):
                await user.ask("What is in the report?", to=[RUNNER_AGENT], timeout=_WAIT)
        state = (await bus.api("STREAM.INFO.BUS", {"subjects_filter": ">"}))["state"]
        subjects: Sizes = state["subjects"]
    tokens = [(len(subject.split(".")), count) for subject, count in subjects.items()]
    mentions = sum((length - 5) * count for length, count in tokens)
    return state["messages"] / _ASKED, len(subjects) / _ASKED, mentions / _ASKED


async def _inboxes(count: int) -> float:
    """Return the memory of one inbox that nothing waits in."""
    async with grown() as bus:
        before = bus.resident_bytes()
        room = asyncio.Semaphore(_CREATING)

        async def make(name: AgentName) -> None:
            config = {
                "name": f"agent-{name}",
                "durable_name": f"agent-{name}",
                "filter_subject": inbox_filter(name),
                "ack_policy": "explicit",
                "mem_storage": True,
            }
            subject = f"CONSUMER.CREATE.MENTIONS.agent-{name}.{inbox_filter(name)}"
            async with room:
                await bus.api(subject, {"stream_name": "MENTIONS", "config": config})

        await asyncio.gather(*(make(agent(number)) for number in range(count)))
        return (bus.resident_bytes() - before) / count


async def _mentions(count: int, inboxes: int) -> tuple[float, float]:
    """Return the bytes of mentions that wait, and the server's work for an event that has one."""
    async with grown(inboxes=inboxes) as bus:
        before = bus.processor_ns()
        await bus.publish(_events(_tasks(100), count, agent(1)), ["BUS"])
        await bus.until(["MENTIONS"], count)
        spent = (bus.processor_ns() - before) / count
        return (await bus.state("MENTIONS"))["bytes"] / count, spent


async def _plain(count: int, partitions: int) -> float:
    """Return the server's work for an event that mentions nobody."""
    async with grown(partitions=partitions) as bus:
        before = bus.processor_ns()
        streams = [f"BUS-{n}" for n in range(partitions)] if partitions > 1 else ["BUS"]
        await bus.publish(_events(_tasks(100), count), streams)
        return (bus.processor_ns() - before) / count


async def _partition() -> float:
    """Return the memory of one more partition, with the sources that the inboxes have of it."""
    async with grown() as one:
        single = one.resident_bytes()
    async with grown(partitions=_PARTITIONS) as several:
        return (several.resident_bytes() - single) / (_PARTITIONS - 1)


async def measure(scale: float) -> Costs:
    """Measure everything, one thing after another."""
    count = max(2_000, round(_EVENTS * scale))
    some = max(1_000, count // 10)
    say("a question and its answer")
    events, subjects, mentions = await _question()
    say(f"{count:,} events on few subjects")
    few = await _filled(count, 100)
    say(f"{count:,} events on a subject each")
    many = await _filled(count, count)
    say("inboxes, mentions and partitions")
    inbox = await _inboxes(max(100, round(_INBOXES * scale)))
    waiting, with_mention = await _mentions(some, 1)
    in_hub, through_hub = await _mentions(some, _HUB)
    plain = await _plain(some, 1)
    spread = await _plain(some, _PARTITIONS)
    body = len(encode_event(next(_events(_tasks(1), 1))))
    return Costs(
        task_events=events,
        task_subjects=subjects,
        task_mentions=mentions,
        body_bytes=body,
        event_bytes=few.disk_bytes,
        event_memory=max(0.0, few.grown_bytes / count),
        subject_memory=max(0.0, (many.grown_bytes - few.grown_bytes) / count),
        mention_bytes=waiting,
        hub_bytes=in_hub,
        inbox_memory=inbox,
        partition_memory=await _partition(),
        measured_subjects=count,
        restart_events=few.restart_s,
        restart_subjects=many.restart_s,
        mention_work=with_mention / plain,
        hub_work=through_hub / with_mention,
        spread_work=spread / plain,
    )


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every count")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this page")
    given = parser.parse_args()
    costs = asyncio.run(measure(given.scale))
    measured, modelled = costs_table(costs), model_table(costs)
    print(f"{measured}\n\n{modelled}")
    if given.write is not None:
        write_between(given.write, "python -m benchmarks.scale", measured)
        write_between(given.write, "the model of benchmarks.scale", modelled)


if __name__ == "__main__":
    main()
