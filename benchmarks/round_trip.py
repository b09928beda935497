"""Ask an agent in another process and be woken by its answer, everything stored and acknowledged.

The plain side: publish with acknowledgement, a durable push consumer with explicit acknowledgement
in another process, which publishes its answer with acknowledgement, which a second durable push
consumer brings back. Ours: a message that mentions the agent, the agent's inbox, its reply in the
thread, acknowledged last. And a whole super-task: opened with a question, ended by an answer.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import nats
from nats.aio.msg import Msg

from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.processes import AGENT, PLAIN_ANSWER, PLAIN_ASK, running
from benchmarks.server import private_server
from threadbus.bus import connect

_QUESTION: Final = "Which of the two numbers is right, the ledger's or the report's?"
_PER_ROUND: Final = 400
_WARM_UP: Final = 50
_TARGET: Final = Target(1.35)
_LIMIT_S: Final = 20.0


async def measure(options: Options) -> Sequence[Figure]:
    """Return the time of a round trip at the median and at the 99th percentile."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(private_server())
        say("round trip, starting both sides")
        sides = {
            "plain": await stack.enter_async_context(_plain(url)),
            "message": await stack.enter_async_context(_message(url)),
            "task": await stack.enter_async_context(_task(url)),
        }
        for side in sides.values():
            await _times(side, _WARM_UP)
        taken: dict[str, list[list[float]]] = {name: [] for name in sides}
        count = options.count(_PER_ROUND)
        for turn in range(options.rounds):
            say(f"round trip, round {turn + 1} of {options.rounds}")
            order = list(sides) if turn % 2 == 0 else list(reversed(sides))
            for name in order:
                taken[name].append(await _times(sides[name], count))
    return [
        figure
        for name, what, target in (
            ("message", "message to an agent and its reply", _TARGET),
            ("task", "super-task asked and answered", None),
        )
        for figure in _figures(what, taken[name], taken["plain"], target)
    ]


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


async def _times(act: Callable[[], Awaitable[None]], count: int) -> list[float]:
    """Return the microseconds of each of *count* round trips, one after the other."""
    times: list[float] = []
    async with asyncio.timeout(_LIMIT_S + count / 20):
        for _ in range(count):
            started = time.perf_counter()
            await act()
            times.append((time.perf_counter() - started) * 1e6)
    return times


@asynccontextmanager
async def _plain(url: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    client = await nats.connect(url)
    try:
        js = client.jetstream()
        await js.add_stream(name="PLAIN", subjects=["plain.>"])  # pyright: ignore[reportUnknownMemberType]
        answers: asyncio.Queue[bytes] = asyncio.Queue()

        async def on_answer(message: Msg) -> None:
            answers.put_nowait(message.data)
            await message.ack()

        await js.subscribe(PLAIN_ANSWER, durable="asking", cb=on_answer, manual_ack=True)  # pyright: ignore[reportUnknownMemberType]

        async def ask() -> None:
            await js.publish(PLAIN_ASK, _QUESTION.encode())
            await answers.get()

        async with running("plain", url):
            yield ask
    finally:
        await client.close()


@asynccontextmanager
async def _message(url: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    async with connect(url, name="user") as bus, running("bus", url):
        opened = await bus.tasks.open("Talk", to=[], participants=[AGENT])
        task = opened.event.task
        thread = (await bus.threads.open(task, "Talk", participants=[AGENT])).event.thread

        async def ask() -> None:
            await bus.request(task, thread, _QUESTION, to=AGENT)

        yield ask


@asynccontextmanager
async def _task(url: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    # The agent of the other side answers super-tasks as well.
    async with connect(url, name="user") as bus:

        async def ask() -> None:
            await bus.ask(_QUESTION, to=[AGENT])

        yield ask


if __name__ == "__main__":
    main(__doc__, [measure])
