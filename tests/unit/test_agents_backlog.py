"""A large backlog waits on the server, not in the memory of an agent; on the bus in memory."""

from __future__ import annotations

import asyncio

from tests.support.bus_env import MemoryEnv
from tests.support.eventually import eventually
from tests.support.running_agents import find, quiet_task, running
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Bus
from threadbus.schemas import MAIN_THREAD, HandlingEnded, HandlingStarted

MANY = 1200
HELD = 1000


async def test_a_backlog_is_held_in_part_and_handled_whole() -> None:
    """Of many mentions a bounded number is taken; all are handled in the end, each once."""
    release, handled = asyncio.Event(), list[str]()
    agent = Agent("web", limits=AgentLimits(concurrency=2))

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        handled.append(mention.text)
        await release.wait()

    env = MemoryEnv()
    async with env.connect("user") as user:
        await user.registry.register(agent.card, holder="nobody")
        for number in range(MANY):
            await user.tasks.open(str(number), to=["web"])
        async with running(agent, user):
            await eventually(lambda: queue_of(user, HELD - 2), "the queue is full")
            assert (await user.pending_mentions())["web"] == MANY
            release.set()
            await eventually(lambda: nothing_waits(user), "all are acknowledged", 60)

    assert sorted(handled, key=int) == [str(number) for number in range(MANY)]


async def test_one_of_several_replicas_leaves_mentions_to_the_others() -> None:
    """It holds no more than a few for each thread that it works on."""
    release = asyncio.Event()
    agent = Agent("web", limits=AgentLimits(concurrency=2))

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        await release.wait()

    env = MemoryEnv()
    async with env.connect("user") as user:
        await user.registry.register(agent.card, holder="nobody")
        tasks = [await quiet_task(user) for _ in range(20)]
        for task in tasks:
            await user.send(task, MAIN_THREAD, "go", mentions=["web"])
        async with running(agent, user, holder="group", replicas=2):
            await find(user, tasks[0], HandlingStarted)
            await eventually(lambda: queue_of(user, 6), "it holds eight")
            release.set()
            for task in tasks:
                await find(user, task, HandlingEnded)


async def queue_of(user: Bus, depth: int) -> bool:
    """Whether the agent says that so many mentions wait."""
    return [beat.queue_depth for beat in await user.registry.presence("web")] == [depth]


async def nothing_waits(user: Bus) -> bool:
    """Whether every mention is acknowledged."""
    return not any((await user.pending_mentions()).values())
