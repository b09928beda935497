"""Three servers with three copies, of which the leader is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.support.bus_env import events_of
from tests.support.eventually import eventually
from tests.support.nats_cluster import cluster, leader_of
from threadbus.bus import (
    AppendTimeoutError,
    Bus,
    BusError,
    BusSettings,
    ThreadClosedError,
    connect,
)
from threadbus.schemas import MAIN_THREAD, AgentCard, MessagePosted, TextPart, new_event_id

_POSTS = 600
_KILLS = 1


async def one_more(answered: Sequence[str]) -> None:
    """Wait until one more question is answered."""
    before = len(answered)
    await eventually(lambda: len(answered) > before, "questions are answered", 90)


@pytest.mark.cluster
@pytest.mark.timeout(420)
@pytest.mark.parametrize(("partitions", "inboxes"), [(1, 1), (3, 2)])
async def test_nothing_is_lost_when_a_leader_is_killed(
    tmp_path: Path, partitions: int, inboxes: int
) -> None:
    """Appends are stored once, a follower has no gap, and questions are answered meanwhile."""
    async with asyncio.timeout(400), AsyncExitStack() as stack:
        servers = await stack.enter_async_context(cluster(tmp_path))
        settings = BusSettings(
            url=",".join(server.url for server in servers),
            replicas=3,
            partitions=partitions,
            inboxes=inboxes,
        )

        async def enter(name: str) -> Bus:
            bus = await stack.enter_async_context(connect(settings, name=name))
            await bus.registry.register(AgentCard(name=name), holder="tests")
            return bus

        user, web, watcher = await enter("user"), await enter("web"), await enter("watcher")
        task = (await user.tasks.open("What is it?", to=[], participants=["web"])).event.task
        seen: list[int] = []
        ids = [new_event_id() for _ in range(_POSTS)]
        answered: list[str] = []

        async def look() -> None:
            async for entry in watcher.follow(task):
                seen.extend([entry.seq])

        async def serve() -> None:
            async with web.inbox() as inbox:
                async for delivery in inbox:
                    try:
                        await web.tasks.submit_answer(delivery.event.task, "42")
                    except ThreadClosedError:
                        # The first delivery was answered.
                        await delivery.ack()
                    except BusError:
                        await delivery.nak()
                    else:
                        await delivery.ack()

        async def ask() -> None:
            while True:
                # A cluster may be without a leader for longer than an append waits.
                with suppress(TimeoutError):
                    answered.append((await user.ask("And?", to=["web"])).text)

        async def append(number: int) -> None:
            data = MessagePosted(parts=(TextPart(str(number)),))
            while True:
                # The same id: what is sent again is stored once.
                with suppress(AppendTimeoutError):
                    await user.append(data, task=task, event_id=ids[number])
                    return

        async def post() -> None:
            for number in range(0, _POSTS, 20):
                async with asyncio.TaskGroup() as group:
                    for one in range(number, number + 20):
                        group.create_task(append(one))

        background = [asyncio.create_task(work) for work in (look(), serve(), ask())]
        posting = asyncio.create_task(post())
        for kill in range(1, _KILLS + 1):
            await one_more(answered)
            leader = ""
            while not leader:
                log = "BUS" if partitions == 1 else "BUS-0"
                leader = await leader_of(servers, f"STREAM.INFO.{log}")
            victim = next(server for server in servers if server.name == leader)
            await victim.kill()
            await victim.start()
            print(f"kill {kill}: {leader}, {len(answered)} questions answered, {len(seen)} seen")
        await one_more(answered)
        await posting
        stored = [entry.seq async for entry in user.read(task)]
        await eventually(lambda: len(seen) >= len(stored), "everything was seen", 90)
        for each in background:
            each.cancel()
        ends = await asyncio.gather(*background, return_exceptions=True)
        counted = Counter(event.id for event in await events_of(user, task))
        print(f"{len(answered)} questions answered, {len(stored)} events")

        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert [counted[event_id] for event_id in ids] == [1] * _POSTS
        assert seen == stored
        assert set(answered) == {"42"}


@pytest.mark.cluster
@pytest.mark.timeout(180)
async def test_others_speak_while_tasks_end(tmp_path: Path) -> None:
    """What comes between an answer and the end of its task does not cost the cluster its log."""
    async with asyncio.timeout(150), AsyncExitStack() as stack:
        servers = await stack.enter_async_context(cluster(tmp_path))
        settings = BusSettings(url=",".join(server.url for server in servers), replicas=3)
        user = await stack.enter_async_context(connect(settings, name="user"))
        web = await stack.enter_async_context(connect(settings, name="web"))
        for bus in (user, web):
            await bus.registry.register(AgentCard(name=bus.name), holder="tests")
        tasks = [
            (await user.tasks.open("What is it?", to=[], participants=["web"])).event.task
            for _ in range(20)
        ]
        over = asyncio.Event()

        async def chat() -> None:
            other = (await user.tasks.open("Talk", to=[], participants=["web"])).event.task
            while not over.is_set():
                await user.send(other, MAIN_THREAD, "And?")

        chats = [asyncio.create_task(chat()) for _ in range(4)]
        for task in tasks:
            await web.tasks.submit_answer(task, "42")
        over.set()
        await asyncio.gather(*chats)

        answers = [(await user.tasks.state(task)).answer for task in tasks]
        assert all(answer is not None for answer in answers)
