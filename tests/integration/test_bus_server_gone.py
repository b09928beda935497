"""A server that is killed and comes back: nothing is lost, nothing counts twice."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.bus_env import entries_of, events_of, receive, soon, take, text
from threadbus.bus import (
    AppendTimeoutError,
    Bus,
    BusError,
    BusSettings,
    Delivery,
    connect,
)
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import MAIN_THREAD, AgentCard, EventId, Presence, TaskId, new_event_id

ROUNDS = 3


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    """A server that the test may kill."""
    async with EmbeddedServer() as started:
        yield started


async def restart(server: EmbeddedServer) -> None:
    """Kill the server and start it again on its data and port."""
    await server.kill()
    await server.start()


async def opened(user: Bus, *names: str) -> TaskId:
    """Register names and open a super-task with them."""
    for name in names:
        await user.registry.register(AgentCard(name=name), holder="a")
    return (await user.tasks.open("What?", to=names[:1], participants=names)).event.task


async def test_appends_outlive_the_server(server: EmbeddedServer) -> None:
    """Messages sent while the server is killed are each stored exactly once."""
    async with connect(server.url, name="user") as user, connect(server.url, name="web") as web:
        task = await opened(user, "user", "web")
        done = asyncio.Event()
        count = 0

        async def post(bus: Bus) -> None:
            nonlocal count
            while not done.is_set():
                await asyncio.gather(
                    *(bus.send(task, MAIN_THREAD, f"{bus.name} {n}") for n in range(20))
                )
                count += 20

        posting = [asyncio.create_task(post(bus)) for bus in (user, web)]
        for _ in range(ROUNDS):
            before = count
            await restart(server)
            while count < before + 200:
                await asyncio.wait(posting, timeout=0.02)
        done.set()
        await soon(asyncio.gather(*posting))
        ids = [event.id for event in await events_of(user, task)]

        assert len(ids) == len(set(ids)) == 1 + count


async def test_a_follower_sees_everything_over_restarts(server: EmbeddedServer) -> None:
    """A follower that was there before the server died has no gap and no duplicate after."""
    async with connect(server.url, name="user") as user, connect(server.url, name="web") as web:
        task = await opened(user, "user", "web")
        following = asyncio.create_task(take(web.follow(task), 1 + ROUNDS * 20))
        for number in range(ROUNDS):
            sending = [
                asyncio.create_task(user.send(task, MAIN_THREAD, f"{number} {part}"))
                for part in range(20)
            ]
            await restart(server)
            await soon(asyncio.gather(*sending))
        entries = await soon(following)

        assert entries == await entries_of(user, task)


async def test_a_wait_and_an_inbox_outlive_the_server(server: EmbeddedServer) -> None:
    """An agent that was attached goes on being woken, and the waiting asker gets its answer."""
    settings = BusSettings(url=server.url, ack_wait=timedelta(seconds=2))
    async with connect(settings, name="user") as user, connect(settings, name="web") as web:
        await opened(user, "web")
        handled: dict[str, int] = {}

        async def handle(delivery: Delivery) -> None:
            event = delivery.event
            handled[event.task] = handled.get(event.task, 0) + 1
            try:
                await web.tasks.submit_answer(event.task, "It is.", event_id=event.cause)
            except BusError:
                # It was answered before: the mention came a second time.
                assert handled[event.task] > 1
            await delivery.ack()

        async def serve() -> None:
            async with web.inbox() as inbox:
                async for delivery in inbox:
                    await handle(delivery)

        serving = asyncio.create_task(serve())
        for _ in range(ROUNDS):
            asking = [
                asyncio.create_task(user.ask(f"What {number}?", to=["web"])) for number in range(5)
            ]
            await restart(server)
            answers = await soon(asyncio.gather(*asking))

            assert [answer.text for answer in answers] == ["It is."] * 5
        serving.cancel()
        await asyncio.wait({serving})


async def keep_sending(user: Bus, task: TaskId, event_id: EventId) -> None:
    """Send one message until it is acknowledged."""
    while True:
        try:
            await user.send(task, MAIN_THREAD, "during", event_id=event_id)
        except AppendTimeoutError:
            continue
        return


async def test_a_server_that_stays_away_ends_an_append(server: EmbeddedServer) -> None:
    """Without a server an append ends at its deadline; sent again later it is stored once."""
    event_id = new_event_id()
    settings = BusSettings(url=server.url, append_timeout=timedelta(milliseconds=300))
    async with connect(settings, name="user") as user:
        task = await opened(user, "user")
        await user.send(task, MAIN_THREAD, "before")
        await server.kill()
        with pytest.raises(AppendTimeoutError) as late:
            await soon(user.send(task, MAIN_THREAD, "during", event_id=event_id))
        await server.start()
        await soon(keep_sending(user, task, event_id))

        assert late.value.event_id == event_id
        assert [text(event) for event in await events_of(user, task)][1:] == ["before", "during"]


async def test_mentions_wait_through_a_restart(server: EmbeddedServer) -> None:
    """Mentions that nobody has taken yet, and held ones, are there after the server came back."""
    async with connect(server.url, name="user") as user, connect(server.url, name="web") as web:
        task = await opened(user, "user", "web")
        sent = [
            (await user.send(task, MAIN_THREAD, str(number), mentions=["web"])).seq
            for number in range(10)
        ]
        async with web.inbox() as inbox:
            held = await receive(inbox, 3, ack=False)
            await restart(server)
            seqs = {delivery.seq for delivery in held}
            for delivery in held:
                await delivery.ack()
            while seqs != set(sent):
                (delivery,) = await receive(inbox, 1)
                seqs.add(delivery.seq)


async def test_what_is_registered_outlives_the_server(server: EmbeddedServer) -> None:
    """Registry, artifacts and tasks are as they were after the server was killed."""
    async with connect(server.url, name="user") as user:
        task = await opened(user, "user", "web")
        reference = await user.artifacts.put(b"x" * 500_000, name="a.bin")
        await user.registry.beat(Presence(agent="web", instance="one", holder="a"))
        await restart(server)
        await user.send(task, MAIN_THREAD, "after")

        assert [one.card.name for one in await user.registry.list()] == ["user", "web"]
        assert await user.artifacts.get(reference) == b"x" * 500_000
        assert [summary.task for summary in await user.tasks.list()] == [task]
