"""Deliveries to many agents, from one stream of inboxes and from several.

The server's work for a mention that is acknowledged grows with the inboxes of its stream. Here many
agents wait, mentions come to agents by turns, and the clock stops when the last one is out of the
work queue. What the server's processor spends on each says more than the rate, where readers and
writers share the machine with it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from nats.aio.msg import Msg

from benchmarks.figures import Figure, say
from benchmarks.growing import Grown, agent, grown
from benchmarks.options import Options, main
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    MessagePosted,
    TextPart,
    inbox_filter,
    make_event,
    new_task_id,
    partition_of,
)

_AGENTS: Final = 1_000
_FEW: Final = 10
_MENTIONS: Final = 4_000
_STREAMS: Final = 4
_MORE: Final = 16
_AT_ONCE: Final = 50
_TEXT: Final = "A message of a usual length, which says what was found and where. " * 4


class _Cost(NamedTuple):
    """What one run took."""

    rate: float
    """Mentions a second, from the first that is sent until the last is out of the work queue."""
    processor_us: float
    """Microseconds of the server's processor for each."""


async def measure(options: Options) -> Sequence[Figure]:
    """Return what mentions to many agents and to few cost, several streams against one."""
    many, count = options.count(_AGENTS), options.count(_MENTIONS)
    kinds = [(many, 1), (many, _STREAMS), (many, _MORE), (_FEW, 1), (_FEW, _STREAMS)]
    found: dict[tuple[int, int], list[_Cost]] = {kind: [] for kind in kinds}
    for turn in range(options.rounds):
        for agents, streams in kinds if turn % 2 else kinds[::-1]:
            say(f"round {turn + 1} of {options.rounds}: {agents:,} inboxes, {streams} streams")
            found[agents, streams].append(await _delivered(agents, streams, count))
    pairs = [
        ((many, 1), (_FEW, 1)),
        ((many, _STREAMS), (many, 1)),
        ((many, _MORE), (many, 1)),
        ((_FEW, _STREAMS), (_FEW, 1)),
    ]
    return [
        Figure(f"{_name(ours)}, {what}", _name(theirs), unit, *_both(found, ours, theirs, index))
        for index, what, unit in (
            (1, "processor time of the server", "µs"),
            (0, "mentions a second", "/s"),
        )
        for ours, theirs in pairs
    ]


def _name(kind: tuple[int, int]) -> str:
    agents, streams = kind
    return f"{agents:,} agents, {streams} stream{'s' * (streams > 1)}"


def _both(
    found: dict[tuple[int, int], list[_Cost]],
    ours: tuple[int, int],
    theirs: tuple[int, int],
    index: int,
) -> tuple[list[float], list[float]]:
    return [cost[index] for cost in found[ours]], [cost[index] for cost in found[theirs]]


async def _delivered(agents: int, streams: int, count: int) -> _Cost:
    async with grown(inboxes=streams) as bus:
        arrived = 0
        done = asyncio.Event()

        async def on_message(message: Msg) -> None:
            nonlocal arrived
            if message.headers and "Status" in message.headers:
                return
            await bus.client.publish(message.reply, b"+ACK")
            arrived += 1
            if arrived == count:
                done.set()

        at = bus.client.new_inbox()
        await bus.client.subscribe(f"{at}.*", cb=on_message)  # pyright: ignore[reportUnknownMemberType]
        where = await _open(bus, agents, streams, at)
        started, before = time.perf_counter(), bus.processor_ns()
        await bus.publish(_mentions(agents, count))
        await done.wait()
        await bus.client.flush(60)
        await bus.until(sorted(where), 0)
        used_us = (bus.processor_ns() - before) / 1000
        return _Cost(count / (time.perf_counter() - started), used_us / count)


async def _open(bus: Grown, agents: int, streams: int, at: str) -> set[str]:
    """Make the inboxes and ask each for all that may come; return their streams."""
    room = asyncio.Semaphore(_AT_ONCE)
    where: set[str] = set()

    async def make(number: int) -> None:
        name = agent(number)
        stream = "MENTIONS" if streams == 1 else f"MENTIONS-{partition_of(name, streams)}"
        where.add(stream)
        config = {
            "name": f"agent-{name}",
            "durable_name": f"agent-{name}",
            "filter_subject": inbox_filter(name),
            "ack_policy": "explicit",
            "mem_storage": True,
        }
        async with room:
            subject = f"CONSUMER.CREATE.{stream}.agent-{name}.{inbox_filter(name)}"
            await bus.api(subject, {"stream_name": stream, "config": config})
        request = json.dumps({"batch": 10_000, "expires": 500 * 10**9}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.agent-{name}"
        await bus.client.publish(subject, request, reply=f"{at}.{number}")

    await asyncio.gather(*(make(number) for number in range(agents)))
    await bus.client.flush(60)
    return where


def _mentions(agents: int, count: int) -> Iterator[Event]:
    tasks = [new_task_id() for _ in range(100)]
    for number in range(count):
        yield make_event(
            MessagePosted(parts=(TextPart(_TEXT),)),
            task=tasks[number % len(tasks)],
            thread=MAIN_THREAD,
            sender=AgentName("user"),
            mentions=(agent(number % agents),),
        )


if __name__ == "__main__":
    main(__doc__, [measure])
