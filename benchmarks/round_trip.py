"""Ask an agent in another process and be woken by its answer, everything stored and acknowledged.

The plain side: publish with acknowledgement, a durable push consumer with explicit acknowledgement
in another process, which publishes its answer with acknowledgement, which a second durable push
consumer brings back; JSON with an id, and an answer that names the question. Ours: a message that
mentions the agent, its reply in the thread, acknowledged last; once from a loop over the inbox and
once from an agent with all that a runner adds (order, leases, presence, the record of each turn).
And a whole super-task, from its question to its answer.

Between the two is the floor: what ours sends, stores and acknowledges, over bare sockets that make
and look at nothing (see :mod:`benchmarks.bare`).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeAlias

import nats
from nats.aio.msg import Msg

from benchmarks.bare import AppendFrames, bare_connection
from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.processes import (
    BARE_AGENT,
    INBOX_AGENT,
    PLAIN_ANSWER,
    PLAIN_ASK,
    RUNNER_AGENT,
    plain_message,
    running,
)
from benchmarks.server import private_server
from threadbus.bus import Bus, connect
from threadbus.schemas import AgentName, MessagePosted, as_parts, make_event

Ask: TypeAlias = Callable[[], Awaitable[object]]

_QUESTION: Final = "Which of the two numbers is right, the ledger's or the report's?"
_PER_ROUND: Final = 400
_TURNS: Final = 8
_WARM_UP: Final = 50
_TARGET: Final = Target(1.35)
_LIMIT_S: Final = 20.0
_WHAT: Final = (
    ("bare", "the same over bare sockets, without an event made or read", None),
    ("inbox", "message to an inbox and its reply", _TARGET),
    ("agent", "message to an agent and its reply", _TARGET),
    ("inbox task", "super-task answered from an inbox", None),
    ("agent task", "super-task answered by an agent", None),
)


async def measure(options: Options) -> Sequence[Figure]:
    """Return the time of a round trip at the median and at the 99th percentile."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(private_server())
        say("round trip, starting every side")
        sides: dict[str, Ask] = {"plain": await stack.enter_async_context(_plain(url))}
        sides["bare"] = await stack.enter_async_context(_bare(url))
        for program, agent in (("inbox", INBOX_AGENT), ("agent", RUNNER_AGENT)):
            await stack.enter_async_context(running(program, url))
            bus = await stack.enter_async_context(connect(url, name=f"asks-{program}"))
            sides[program] = await _message(bus, agent)
            sides[f"{program} task"] = _task(bus, agent)
        for side in sides.values():
            await _times(side, _WARM_UP)
        taken: dict[str, list[list[float]]] = {name: [] for name in sides}
        for turn in range(options.rounds):
            say(f"round trip, round {turn + 1} of {options.rounds}")
            for name, times in (await _round(sides, options.count(_PER_ROUND))).items():
                taken[name].append(times)
    return [
        figure
        for name, what, target in _WHAT
        for figure in _figures(what, taken[name], taken["plain"], target)
    ]


async def _round(sides: dict[str, Ask], count: int) -> dict[str, list[float]]:
    """Ask each side *count* times, a few at a time in turn: what disturbs one disturbs all."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(_TURNS):
        for name in names if turn % 2 == 0 else reversed(names):
            times[name] += await _times(sides[name], max(1, count // _TURNS))
    return times


def _figures(
    what: str,
    ours: Sequence[Sequence[float]],
    theirs: Sequence[Sequence[float]],
    target: Target | None,
) -> list[Figure]:
    against = "nats-py JetStream round trip"
    return [
        Figure(what, against, "µs", _at(0.5, ours), _at(0.5, theirs), target),
        Figure(f"{what}, 99th percentile", against, "µs", _at(0.99, ours), _at(0.99, theirs)),
    ]


def _at(share: float, rounds: Sequence[Sequence[float]]) -> list[float]:
    return [
        statistics.quantiles(times, n=100, method="inclusive")[round(share * 100) - 1]
        for times in rounds
    ]


async def _times(ask: Ask, count: int) -> list[float]:
    """Return the microseconds of each of *count* round trips, one after the other."""
    times: list[float] = []
    async with asyncio.timeout(_LIMIT_S + count / 20):
        for _ in range(count):
            started = time.perf_counter()
            await ask()
            times.append((time.perf_counter() - started) * 1e6)
    return times


@asynccontextmanager
async def _plain(url: str) -> AsyncGenerator[Ask]:
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
    try:
        js = client.jetstream()  # pyright: ignore[reportUnknownMemberType]
        await js.add_stream(name="PLAIN", subjects=["plain.>"])  # pyright: ignore[reportUnknownMemberType]
        waiting: dict[str, asyncio.Future[str]] = {}

        async def on_answer(message: Msg) -> None:
            answer = json.loads(message.data)
            waiting.pop(answer["cause"]).set_result(answer["text"])
            await message.ack()

        await js.subscribe(PLAIN_ANSWER, durable="asking", cb=on_answer, manual_ack=True)  # pyright: ignore[reportUnknownMemberType]

        async def ask() -> None:
            key, question = plain_message(_QUESTION)
            answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            waiting[key] = answered
            await js.publish(PLAIN_ASK, question)
            await answered

        async with running("plain", url):
            yield ask
    finally:
        await client.close()


@asynccontextmanager
async def _bare(url: str) -> AsyncGenerator[Ask]:
    name, agent, acked_at = AgentName("asks-bare"), AgentName(BARE_AGENT), "_INBOX.bare.asked"
    async with running("bare", url), bare_connection(url) as connection:
        async with connect(url, name=name) as bus:
            task = (await bus.tasks.open("Talk", to=[], participants=[agent])).event.task
            opened = await bus.threads.open(task, "Talk", participants=[agent])
        event = make_event(
            MessagePosted(parts=as_parts(_QUESTION), awaited=True),
            task=task,
            thread=opened.event.thread,
            sender=name,
            mentions=(agent,),
        )
        frames = AppendFrames(event, opened.seq, acked_at)
        acked: asyncio.Future[None]
        answered: asyncio.Future[None]

        def on_ack(_subject: bytes, _reply: bytes) -> None:
            acked.set_result(None)

        def on_stored(subject: bytes, _reply: bytes) -> None:
            if subject.endswith(b".msg.bare-agent"):
                answered.set_result(None)

        connection.subscribe(acked_at, on_ack)
        connection.subscribe(f"stored.bus.{task}.>", on_stored)

        async def ask() -> None:
            nonlocal acked, answered
            loop = asyncio.get_running_loop()
            acked, answered = loop.create_future(), loop.create_future()
            connection.write(frames.next())
            await acked
            await answered

        yield ask


async def _message(bus: Bus, agent: str) -> Ask:
    opened = await bus.tasks.open("Talk", to=[], participants=[agent])
    task = opened.event.task
    thread = (await bus.threads.open(task, "Talk", participants=[agent])).event.thread

    async def ask() -> None:
        await bus.request(task, thread, _QUESTION, to=agent)

    return ask


def _task(bus: Bus, agent: str) -> Ask:
    async def ask() -> None:
        await bus.ask(_QUESTION, to=[agent])

    return ask


if __name__ == "__main__":
    main(__doc__, [measure])
