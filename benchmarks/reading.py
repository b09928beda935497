"""Read a super-task: fetch, decode, check and fold its events, out of a log that holds many more.

Compared with plain nats-py on the same messages, which neither decodes nor checks them: an ordered
consumer with a callback, and the same batched direct gets that the bus uses.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.figures import AIM, Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.server import private_server
from threadbus.bus import Bus, connect, fold_task
from threadbus.schemas import (
    AnyData,
    MessagePosted,
    ModelCalled,
    Recorded,
    TaskId,
    TextPart,
    ToolCalled,
    ToolReturned,
)

_LARGE: Final = 20_000
_OTHERS: Final = 1_000
_SMALL: Final = 100
_WRITERS: Final = 256
_BATCH: Final = 1_000
_LEAST_PER_SECOND: Final = 100_000.0
_MOST_MS: Final = 15.0
_LIMIT_S: Final = 120.0
_STARTED_NS: Final = 1_700_000_000_000_000_000
_SMALL_READS: Final = 20
_TEXT: Final = "The ledger says 41,200 and the report says 42,100; row 17 is counted twice. " * 4


async def measure(options: Options) -> Sequence[Figure]:
    """Return the throughput on a large super-task and the time for a small one."""
    async with private_server() as url, connect(url, name="user") as bus:
        large, small = await _fill(bus, options)
        plain = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
        try:
            return await _measure(options, bus, plain, large, small)
        finally:
            await plain.close()


async def _fill(bus: Bus, options: Options) -> tuple[TaskId, TaskId]:
    """Write a large super-task among small ones, mixed as they would be; return it and one."""
    large_size, others = options.count(_LARGE), options.count(_OTHERS)
    say(f"reading, writing {large_size + others * _SMALL:,} events")
    large = (await bus.tasks.open("The large one", to=[])).event.task
    small = [(await bus.tasks.open(f"Task {n}", to=[])).event.task for n in range(others)]
    every = (others * _SMALL) // large_size
    order = enumerate(
        task
        for n in range(large_size - 1)
        for task in (large, *(small[(n * every + k) % others] for k in range(every)))
    )

    async def writer() -> None:
        for number, task in order:
            await bus.append(_some_event(number), task=task)

    async with asyncio.TaskGroup() as group:
        for _ in range(_WRITERS):
            group.create_task(writer())
    return large, small[others // 2]


def _some_event(number: int) -> AnyData:
    """Return what a team at work says: messages, model and tool calls, ends of turns."""
    match number % 5:
        case 0 | 1:
            return MessagePosted(parts=(TextPart(_TEXT),))
        case 2:
            return ModelCalled(
                model="some-model",
                system="openai",
                started_at=_STARTED_NS + number,
                duration_ns=800_000_000,
                input_tokens=1_200,
                output_tokens=80,
            )
        case 3:
            return ToolCalled(call_id=f"call-{number}", tool="read", arguments={"file": "a.csv"})
        case _:
            return ToolReturned(
                call_id=f"call-{number}",
                tool="read",
                duration_ns=3_000_000,
                parts=(TextPart(_TEXT),),
            )


async def _measure(
    options: Options, bus: Bus, plain: Client, large: TaskId, small: TaskId
) -> Sequence[Figure]:
    counts: set[int] = set()

    async def ours() -> int:
        state = await bus.tasks.state(large)
        return state.events

    async def ordered() -> int:
        return await _ordered_consumer(plain, large, counts)

    async def direct() -> int:
        return await _direct_gets(plain, large)

    readers: tuple[Callable[[], Awaitable[int]], ...] = (ours, ordered, direct)
    counts.add(await ours())
    wall: list[list[float]] = [[], [], []]
    cpu: list[list[float]] = [[], [], []]
    times: list[float] = []
    for turn in range(options.rounds):
        say(f"reading, round {turn + 1} of {options.rounds}")
        for index in range(3) if turn % 2 == 0 else range(2, -1, -1):
            started, used = time.perf_counter(), time.process_time()
            count = await readers[index]()
            wall[index].append(count / (time.perf_counter() - started))
            cpu[index].append(count / (time.process_time() - used))
            counts.add(count)
        times.append(await _small_ms(bus, small))
    if len(counts) != 1:
        raise RuntimeError(f"the readers do not agree how many events there are: {counts}")
    what, rate = "reading a super-task of 20,000 events", Target(1.0, at_least=True)
    floor = [_LEAST_PER_SECOND] * options.rounds
    return [
        # The server works on each message for as long, so that a second core comes into it.
        Figure(f"{what}, by the clock", AIM, "/s", wall[0], floor),
        Figure(f"{what}, by processor time", AIM, "/s", cpu[0], floor, rate),
        Figure(what, "nats-py ordered consumer, not decoded", "/s", wall[0], wall[1]),
        Figure(what, "nats-py direct gets, not decoded", "/s", wall[0], wall[2]),
        Figure(
            "reading a super-task of 100 events among 1,000 others",
            AIM,
            "ms",
            times,
            [_MOST_MS] * options.rounds,
            Target(1.0),
        ),
    ]


async def _small_ms(bus: Bus, task: TaskId) -> float:
    started = time.perf_counter()
    for _ in range(_SMALL_READS):
        items = [item async for item in bus.read(task) if isinstance(item, Recorded)]
        if not fold_task(task, items).exists:
            raise RuntimeError(f"super-task {task} is not there")
    return (time.perf_counter() - started) / _SMALL_READS * 1000


async def _ordered_consumer(client: Client, task: TaskId, expected: set[int]) -> int:
    (wanted,) = expected
    seen = 0
    done = asyncio.Event()

    async def on_message(_message: Msg) -> None:
        nonlocal seen
        seen += 1
        if seen == wanted:
            done.set()

    subscription = await client.jetstream().subscribe(  # pyright: ignore[reportUnknownMemberType]
        f"bus.{task}.>", stream="BUS", ordered_consumer=True, cb=on_message
    )
    async with asyncio.timeout(_LIMIT_S):
        await done.wait()
    await subscription.unsubscribe()
    return seen


async def _direct_gets(client: Client, task: TaskId) -> int:
    inbox = client.new_inbox()
    seen = last = 0
    arrived: asyncio.Queue[bool] = asyncio.Queue()

    async def on_message(message: Msg) -> None:
        nonlocal seen, last
        headers = message.headers or {}
        if headers.get("Status") is None:
            seen += 1
            last = int(headers["Nats-Sequence"])
        else:
            arrived.put_nowait(headers.get("Nats-Num-Pending") not in {None, "0"})

    subscription = await client.subscribe(inbox, cb=on_message)  # pyright: ignore[reportUnknownMemberType]
    more = True
    while more:
        request = {"seq": last + 1, "batch": _BATCH, "next_by_subj": f"bus.{task}.>"}
        await client.publish("$JS.API.DIRECT.GET.BUS", json.dumps(request).encode(), reply=inbox)
        async with asyncio.timeout(_LIMIT_S):
            more = await arrived.get()
    await subscription.unsubscribe()
    return seen


if __name__ == "__main__":
    main(__doc__, [measure])
