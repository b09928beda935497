"""Many waits, many followers, and two processes of one name."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from datetime import timedelta

from tests.support.bus_env import receive, soon, take
from tests.support.eventually import eventually
from threadbus.bus import Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import MAIN_THREAD, AgentCard, TaskId

_WAITS = 1000
_ROUNDS = 5


async def open_task(bus: Bus, *to: str) -> TaskId:
    """Register and open a super-task."""
    for name in ("user", *to):
        await bus.registry.register(AgentCard(name=name), holder="tests")
    return (await bus.tasks.open("What is it?", to=list(to))).event.task


async def test_a_thousand_waits_that_are_cancelled_leave_nothing() -> None:
    """After each of five rounds the tasks are gone, and memory does not grow with the rounds."""
    async with EmbeddedServer() as server, connect(server.url, name="user") as bus:
        task = await open_task(bus)
        before = asyncio.all_tasks()
        sizes: list[int] = []
        tracemalloc.start()
        try:
            for _ in range(_ROUNDS):
                waits = [
                    asyncio.create_task(
                        bus.waits.for_answer(task, timeout=timedelta(minutes=5)), name="wait"
                    )
                    for _ in range(_WAITS)
                ]
                # Each has begun when the last one has been read for.
                await take(bus.follow(task), 1)
                for wait in waits:
                    wait.cancel()
                ends = await soon(asyncio.gather(*waits, return_exceptions=True))
                assert all(isinstance(end, asyncio.CancelledError) for end in ends)
                del waits, ends
                await eventually(lambda: asyncio.all_tasks() == before, "no task is left")
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        print("bytes after each round:", sizes)
        await bus.send(task, MAIN_THREAD, "Still here.")

        # The first round fills caches; a kilobyte for each wait would be a megabyte a round.
        # What is in flight between server and client at the end of a round differs.
        assert min(sizes[2:]) - sizes[1] < 500_000


async def test_two_hundred_followers_see_the_same() -> None:
    """Everybody who follows a super-task gets every event of it, in order."""
    async with (
        EmbeddedServer() as server,
        connect(server.url, name="user") as bus,
        connect(server.url, name="watcher") as watcher,
    ):
        task = await open_task(bus)
        following = [
            asyncio.create_task(take(watcher.follow(task), 51), name="follow") for _ in range(200)
        ]
        sent = [(await bus.send(task, MAIN_THREAD, str(n))).seq for n in range(50)]
        seen = await soon(asyncio.gather(*following))

        assert all([entry.seq for entry in each][1:] == sent for each in seen)


async def test_two_connections_of_one_name_share_an_inbox() -> None:
    """Each mention goes to one of them, and both may speak."""
    async with (
        EmbeddedServer() as server,
        connect(server.url, name="user") as user,
        connect(server.url, name="web") as one,
        connect(server.url, name="web") as two,
    ):
        task = await open_task(user, "web")
        async with one.inbox(room=1) as first, two.inbox(room=1) as second:
            sent = [
                (await user.send(task, MAIN_THREAD, str(n), mentions=["web"])).seq
                for n in range(20)
            ]
            taken: list[int] = []

            async def work(bus: Bus, inbox_of: int) -> None:
                inbox = (first, second)[inbox_of]
                while True:
                    delivery = (await receive(inbox, 1))[0]
                    await bus.send(task, MAIN_THREAD, "Seen.", cause=delivery.event.id)
                    taken.append(delivery.seq)

            working = [asyncio.create_task(work(one, 0)), asyncio.create_task(work(two, 1))]
            await eventually(lambda: len(taken) >= 21, "all were taken")
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)

        assert sorted(taken)[1:] == sent
