"""Connections that are cut, frozen or slow, and acknowledgements that are lost."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tests.support.bus_env import soon
from tests.support.eventually import eventually
from tests.support.proxy import Proxy, proxied
from threadbus.bus import Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    EventId,
    MessagePosted,
    Recorded,
    TaskId,
    TaskStatus,
    TextPart,
    new_event_id,
)

_ACK = re.compile(rb'MSG \S+ \d+ \d+\r\n\{"stream":"BUS", ?"seq":\d+[^}]*\}\r\n')


@asynccontextmanager
async def far_bus() -> AsyncGenerator[tuple[Proxy, Bus, Bus, TaskId]]:
    """A bus behind a proxy and one without, and a super-task of both."""
    async with (
        EmbeddedServer() as server,
        proxied(server.url) as (proxy, url),
        connect(url, name="user") as far,
        connect(server.url, name="web") as near,
    ):
        for name in ("user", "web"):
            await near.registry.register(AgentCard(name=name), holder="tests")
        opened = await far.tasks.open("What is it?", to=["web"])
        yield proxy, far, near, opened.event.task


async def ids_of(bus: Bus, task: TaskId) -> Counter[EventId]:
    """Count how often each event is in the log."""
    return Counter(
        [entry.event.id async for entry in bus.read(task) if isinstance(entry, Recorded)]
    )


def lose_acks(proxy: Proxy, count: int) -> None:
    """Drop the next *count* acknowledgements of the log on their way to the client."""
    left = count

    def bend(chunk: bytes) -> bytes:
        nonlocal left
        while left and (found := _ACK.search(chunk)):
            chunk = chunk[: found.start()] + chunk[found.end() :]
            left -= 1
        return chunk

    proxy.to_client = bend


def hold_second_pong(proxy: Proxy, until: bytes) -> asyncio.Event:
    """Hold back the server's second PONG until after a message; give an event of its coming."""
    held, pongs = asyncio.Event(), 0

    def bend(chunk: bytes) -> bytes:
        nonlocal pongs
        if b"PONG\r\n" in chunk:
            pongs += 1
            if pongs == 2:
                held.set()
                return chunk.replace(b"PONG\r\n", b"")
        return chunk + b"PONG\r\n" if until in chunk else chunk

    proxy.to_client = bend
    return held


async def until_done(tasks: Sequence[asyncio.Task[int]], some: int) -> None:
    """Wait until *some* of *tasks* are done."""
    await eventually(lambda: sum(task.done() for task in tasks) >= some, "some are acknowledged")


async def test_a_message_whose_acknowledgement_is_lost_is_stored_once() -> None:
    """It is sent again with its id, and the caller gets the place of the first copy."""
    async with far_bus() as (proxy, far, near, task):
        lose_acks(proxy, 1)
        sent = await soon(far.send(task, MAIN_THREAD, "Hello."))
        entries = [entry async for entry in near.read(task)]

        assert sent.duplicate
        assert [entry.seq for entry in entries][1:] == [sent.seq]
        assert (await ids_of(near, task))[sent.event.id] == 1


async def test_a_control_event_whose_acknowledgement_is_lost_is_stored_once() -> None:
    """The guard refuses the second copy; the writer finds its own event and takes it as done."""
    async with far_bus() as (proxy, far, near, task):
        lose_acks(proxy, 1)
        thread = await soon(far.threads.open(task, "Side", participants=["web"]))
        lose_acks(proxy, 1)
        closed = await soon(far.threads.close(task, thread.event.thread, summary="Done."))
        ids = await ids_of(near, task)

        assert ids[thread.event.id] == 1
        assert ids[closed.event.id] == 1
        assert not (await near.threads.state(task, thread.event.thread)).is_open


async def test_a_message_that_is_resent_after_the_thread_changed_is_stored_once() -> None:
    """The guard refuses the second copy of a stored message too: it is found in the log."""
    async with far_bus() as (proxy, far, near, task):
        lose_acks(proxy, 1)
        sending = asyncio.create_task(far.send(task, MAIN_THREAD, "Hello."))

        async def stored() -> bool:
            return len(await ids_of(near, task)) == 2

        await eventually(stored, "the message is in the log")
        await near.tasks.close(task, TaskStatus.COMPLETED, summary="Enough.")
        sent = await soon(sending)

        assert (await ids_of(near, task))[sent.event.id] == 1


async def test_pipelined_messages_over_a_connection_that_is_cut_are_stored_once() -> None:
    """Of 1,000 messages and a connection cut again and again, each is there exactly once."""
    async with far_bus() as (proxy, far, near, task):
        ids = [new_event_id() for _ in range(1000)]

        async def post(number: int) -> int:
            data = MessagePosted(parts=(TextPart(str(number)),))
            return (await far.append(data, task=task, event_id=ids[number])).seq

        async def cut() -> None:
            for some in (150, 300, 450, 600):
                await until_done(posting, some)
                proxy.cut()

        posting = [asyncio.create_task(post(number)) for number in range(1000)]
        await soon(cut())
        seqs = await soon(asyncio.gather(*posting))
        counted = await ids_of(near, task)

        assert len(set(seqs)) == 1000
        assert [counted[event_id] for event_id in ids] == [1] * 1000


async def test_a_frozen_connection_is_given_up() -> None:
    """Where no byte passes any more the client notices, connects again and loses nothing."""
    async with far_bus() as (proxy, far, near, task):
        seen: list[int] = []
        enough = asyncio.Event()

        async def look() -> None:
            async for entry in far.follow(task):
                seen.append(entry.seq)
                if len(seen) == 3:
                    enough.set()

        looking = asyncio.create_task(look())
        await eventually(lambda: len(seen) == 1, "the follower is there")
        proxy.freeze()
        sending = asyncio.create_task(far.send(task, MAIN_THREAD, "Are you there?"))
        other = await near.send(task, MAIN_THREAD, "I am.")
        before = proxy.connections
        await eventually(lambda: proxy.connections > before, "it tries to connect again", 40)
        assert not sending.done()
        proxy.thaw()
        sent = await soon(sending)
        await soon(enough.wait())
        looking.cancel()

        assert sorted(seen)[1:] == sorted([sent.seq, other.seq])
        assert (await ids_of(near, task))[sent.event.id] == 1


async def test_a_slow_network_delays_and_loses_nothing() -> None:
    """Where 1,000 messages take longer than the client waits for one, each is stored once."""
    async with far_bus() as (proxy, far, near, task):
        proxy.pause_s = 0.05
        ids = [new_event_id() for _ in range(300)]

        async def post(event_id: EventId) -> None:
            data = MessagePosted(parts=(TextPart("x" * 1000),))
            await far.append(data, task=task, event_id=event_id)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for event_id in ids:
                group.create_task(post(event_id))
        counted = await ids_of(near, task)

        assert [counted[event_id] for event_id in ids] == [1] * 300


async def test_what_was_stored_before_the_subscriptions_were_back_is_not_missed() -> None:
    """The server sends what it stores next before the client knows that it is connected again."""
    async with far_bus() as (proxy, far, near, task):
        entries = aiter(far.follow(task))
        opened = await soon(anext(entries))
        following = asyncio.ensure_future(anext(entries))
        proxy.refuses = True
        proxy.cut()
        await eventually(lambda: not proxy.open_connections, "the connection is gone")
        missed = await near.send(task, MAIN_THREAD, "While you were away.")
        held = hold_second_pong(proxy, b"Just now.")
        proxy.refuses = False

        # What the client waits for when it has subscribed again: so it has.
        await soon(held.wait())
        latest = await near.send(task, MAIN_THREAD, "Just now.")

        assert [opened.seq, (await soon(following)).seq, (await soon(anext(entries))).seq] == [
            opened.seq,
            missed.seq,
            latest.seq,
        ]
