"""200 super-tasks run while agents and the server are killed with SIGKILL."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path

from tests.support.agent_process import AgentProcess
from tests.support.invariants import violations
from threadbus.bus import Bus, BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import Recorded, TaskId

TASKS = 200
KILLS = 24
SEED = 20260
TEAM = Path(__file__).parent.parent / "support" / "fault_team.py"
NAMES = ("front", "middle", "back")


async def test_every_task_has_one_answer_whatever_is_killed() -> None:
    """Every task ends with exactly one answer and every mention is handled."""
    chance = random.Random(SEED)
    async with EmbeddedServer() as server:
        environ = {"BUS_URL": server.url}
        team = [AgentProcess(f"{TEAM}:{name}", environ) for name in NAMES]
        try:
            for agent in team:
                await agent.start()
            async with connect(BusSettings(url=server.url)) as bus:
                finished = asyncio.Event()
                kills = asyncio.create_task(kill_at_random(server, team, chance, finished))
                limit = asyncio.Semaphore(25)
                tasks = await asyncio.gather(
                    *(one_task(bus, number, limit) for number in range(TASKS))
                )
                finished.set()
                done = await kills
                bad = await check(bus, tasks)
        finally:
            for agent in team:
                await agent.kill()
    print(
        f"{len(tasks)} super-tasks, {done['server']} kills of the server and "
        f"{done['agent']} of agents: {len(tasks) - len(bad)} with exactly one answer and "
        f"every mention handled, {len(bad)} not"
    )
    assert bad == {}
    assert done["server"] >= 2
    assert done["agent"] >= 6


async def one_task(bus: Bus, number: int, limit: asyncio.Semaphore) -> TaskId:
    async with limit:
        answer = await bus.ask(
            f"q{number}",
            to=["front"],
            participants=["middle", "back"],
            timeout=timedelta(minutes=3),
        )
        assert answer.text == f"asked(ask q{number}) + done(do q{number})"
        return answer.task


async def kill_at_random(
    server: EmbeddedServer, team: list[AgentProcess], chance: random.Random, done: asyncio.Event
) -> dict[str, int]:
    counts = {"server": 0, "agent": 0}
    while sum(counts.values()) < KILLS and not done.is_set():
        try:
            async with asyncio.timeout(chance.uniform(0.05, 0.4)):
                await done.wait()
        except TimeoutError:
            pass
        if counts["server"] * 4 <= counts["agent"]:
            await server.kill()
            await server.start()
            counts["server"] += 1
        else:
            agent = chance.choice(team)
            await agent.kill()
            await agent.start(wait_ready=False)
            counts["agent"] += 1
    return counts


async def check(bus: Bus, tasks: list[TaskId]) -> dict[TaskId, list[str]]:
    """Look at every log; again where a turn's end is missing, until the time is up.

    The end of a turn is recorded a moment after its answer, and a kill in between delays it.
    """
    bad: dict[TaskId, list[str]] = {}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    for task in tasks:
        while True:
            items = [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]
            wrong = violations(task, items, NAMES)
            if not wrong or loop.time() > deadline:
                break
        if wrong:
            bad[task] = wrong
    return bad
