"""Guarded appends against plain JetStream publishes of as many bytes, at the same depth.

Both wait for the server's acknowledgement of every message. The plain side has no headers and a
body that was made before; ours carries the event's id, the guard and the trace context, and is
made, checked and encoded each time. A mention is stored twice, in the log and in an inbox that the
server fills from it; so it is also compared with a plain publish into a stream that a work queue is
filled from.

And the floor: the same bytes over a bare socket (see :mod:`benchmarks.bare`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import nats
from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy, StreamConfig, StreamSource, SubjectTransform

from benchmarks.bare import AppendFrames, BareConnection, bare_connection
from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.server import private_server
from threadbus.bus import Bus, connect, new_instance
from threadbus.schemas import MAIN_THREAD, AgentCard, encode_event

_TEXT: Final = "The ledger says 41,200 and the report says 42,100. " * 8
_TASKS: Final = 16
_TARGET: Final = Target(0.85, at_least=True)
_DEPTHS: Final = ((1, 2_000), (64, 12_000), (256, 12_000))


_PLAIN: Final = "nats-py publish with acknowledgement"
_QUEUED: Final = "nats-py publish that also fills a work queue"
_WHAT: Final = (
    ("guarded append", "send", "plain", _PLAIN, _TARGET),
    ("guarded append with a mention", "mention", "queued", _QUEUED, _TARGET),
    ("guarded append with a mention", "mention", "plain", _PLAIN, None),
    ("guarded append over a bare socket", "bare", "plain", _PLAIN, None),
    ("guarded append with a mention over a bare socket", "bare mention", "queued", _QUEUED, None),
)
_ACKED_AT: Final = "_INBOX.bare.appended"

Side: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Stores so many messages with so many on their way at once."""


async def measure(options: Options) -> Sequence[Figure]:
    """Return the throughput at each depth, without a mention and with one."""
    async with (
        private_server() as url,
        connect(url, name="user") as bus,
        bare_connection(url) as bare,
    ):
        plain = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
        try:
            sides = await _sides(bus, plain.jetstream(), bare)  # pyright: ignore[reportUnknownMemberType]
            return await _measure(options, sides)
        finally:
            await plain.close()


async def _sides(bus: Bus, js: JetStreamContext, bare: BareConnection) -> Mapping[str, Side]:
    await js.add_stream(name="PLAIN", subjects=["plain.>"])  # pyright: ignore[reportUnknownMemberType]
    await js.add_stream(name="QUEUED", subjects=["queued.>"])  # pyright: ignore[reportUnknownMemberType]
    to_work = SubjectTransform(src="queued.>", dest="work.>")
    await js.add_stream(  # pyright: ignore[reportUnknownMemberType]
        StreamConfig(
            name="WORK",
            retention=RetentionPolicy.WORK_QUEUE,
            sources=[StreamSource(name="QUEUED", subject_transforms=[to_work])],
        )
    )
    await bus.registry.register(AgentCard(name="web"), holder=new_instance())
    opened = [await bus.tasks.open(f"Task {n}", to=["web"]) for n in range(_TASKS)]
    tasks = [each.event.task for each in opened]
    said = (await bus.send(tasks[0], MAIN_THREAD, _TEXT)).event
    woken = (await bus.send(tasks[0], MAIN_THREAD, _TEXT, mentions=["web"])).event
    body = b"x" * len(encode_event(said))

    async def publish(_n: int) -> object:
        return await js.publish("plain.publish", body)

    async def queue(_n: int) -> object:
        return await js.publish("queued.publish", body)

    async def send(n: int) -> object:
        return await bus.send(tasks[n % _TASKS], MAIN_THREAD, _TEXT)

    async def mention(n: int) -> object:
        return await bus.send(tasks[n % _TASKS], MAIN_THREAD, _TEXT, mentions=["web"])

    return {
        "plain": _awaiting(publish),
        "queued": _awaiting(queue),
        "send": _awaiting(send),
        "mention": _awaiting(mention),
        "bare": _streaming(bare, AppendFrames(said, opened[0].seq, _ACKED_AT)),
        "bare mention": _streaming(
            bare, AppendFrames(woken, opened[0].seq, f"{_ACKED_AT}.mentions")
        ),
    }


async def _measure(options: Options, sides: Mapping[str, Side]) -> Sequence[Figure]:
    figures: list[Figure] = []
    for depth, usual in _DEPTHS:
        say(f"append, depth {depth}")
        count = options.count(usual)
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for side in sides.values():
            await side(count // 10 + 1, depth)
        for turn in range(options.rounds):
            for name in sides if turn % 2 == 0 else reversed(list(sides)):
                started = time.perf_counter()
                await sides[name](count, depth)
                rates[name].append(count / (time.perf_counter() - started))
        figures += [
            Figure(
                f"{what}, {depth} at a time",
                against,
                "/s",
                rates[ours],
                rates[theirs],
                target if depth > 1 else None,
            )
            for what, ours, theirs, against, target in _WHAT
        ]
    return figures


def _awaiting(act: Callable[[int], Awaitable[object]]) -> Side:
    """Do *act* over and over in as many tasks as are to be on their way."""

    async def side(count: int, depth: int) -> None:
        numbers = iter(range(count))

        async def worker() -> None:
            for number in numbers:
                await act(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(depth):
                group.create_task(worker())

    return side


def _streaming(bare: BareConnection, frames: AppendFrames) -> Side:
    """Send frames, one more for each that is acknowledged."""
    left = missing = 0
    done: asyncio.Future[None]

    def on_ack(_subject: bytes, _reply: bytes) -> None:
        nonlocal left, missing
        missing -= 1
        if left:
            left -= 1
            bare.write_soon(frames.next())
        elif not missing:
            done.set_result(None)

    async def side(count: int, depth: int) -> None:
        nonlocal left, missing, done
        done = asyncio.get_running_loop().create_future()
        missing, left = count, max(0, count - depth)
        for _ in range(count - left):
            bare.write_soon(frames.next())
        await done

    bare.subscribe(frames.reply, on_ack)
    return side


if __name__ == "__main__":
    main(__doc__, [measure])
