"""Guarded appends against plain JetStream publishes of as many bytes, at the same depth.

Both wait for the server's acknowledgement of every message. The plain side has no headers; ours
carries the event's id, the guard and the trace context, and is encoded and checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import nats
from nats.js import JetStreamContext

from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.server import private_server
from threadbus.bus import Bus, connect, new_instance
from threadbus.schemas import MAIN_THREAD, AgentCard, TaskId, encode_event

_TEXT: Final = "The ledger says 41,200 and the report says 42,100. " * 8
_TASKS: Final = 16
_TARGET: Final = Target(0.85, at_least=True)
_DEPTHS: Final = ((1, 2_000), (64, 12_000), (256, 12_000))


async def measure(options: Options) -> Sequence[Figure]:
    """Return the throughput at each depth, without a mention and with one."""
    async with private_server() as url, connect(url, name="user") as bus:
        plain = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
        try:
            return await _measure(options, bus, plain.jetstream())  # pyright: ignore[reportUnknownMemberType]
        finally:
            await plain.close()


async def _measure(options: Options, bus: Bus, js: JetStreamContext) -> Sequence[Figure]:
    await js.add_stream(name="PLAIN", subjects=["plain.>"])  # pyright: ignore[reportUnknownMemberType]
    await bus.registry.register(AgentCard(name="web"), holder=new_instance())
    tasks = [(await bus.tasks.open(f"Task {n}", to=["web"])).event.task for n in range(_TASKS)]
    size = await _body_bytes(bus, tasks[0])
    body = b"x" * size

    async def publish(_n: int) -> object:
        return await js.publish("plain.publish", body)

    async def send(n: int) -> object:
        return await bus.send(tasks[n % _TASKS], MAIN_THREAD, _TEXT)

    async def mention(n: int) -> object:
        return await bus.send(tasks[n % _TASKS], MAIN_THREAD, _TEXT, mentions=["web"])

    figures: list[Figure] = []
    for depth, usual in _DEPTHS:
        say(f"append, depth {depth}")
        count = options.count(usual)
        sides: tuple[Callable[[int], Awaitable[object]], ...] = (publish, send, mention)
        rates: list[list[float]] = [[], [], []]
        for side in sides:
            await _rate(side, count // 10 + 1, depth)
        for turn in range(options.rounds):
            order = range(3) if turn % 2 == 0 else range(2, -1, -1)
            for index in order:
                rates[index].append(await _rate(sides[index], count, depth))
        for index, what in ((1, "guarded append"), (2, "guarded append with a mention")):
            figures.append(
                Figure(
                    f"{what}, {depth} at a time",
                    "nats-py publish with acknowledgement",
                    "/s",
                    rates[index],
                    rates[0],
                    _TARGET if depth > 1 else None,
                )
            )
    return figures


async def _body_bytes(bus: Bus, task: TaskId) -> int:
    return len(encode_event((await bus.send(task, MAIN_THREAD, _TEXT)).event))


async def _rate(act: Callable[[int], Awaitable[object]], count: int, depth: int) -> float:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await act(number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(depth):
            group.create_task(worker())
    return count / (time.perf_counter() - started)


if __name__ == "__main__":
    main(__doc__, [measure])
