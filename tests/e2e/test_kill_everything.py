"""200 super-tasks run while agents and the server are killed with SIGKILL."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from tests.support.agent_process import AgentProcess
from tests.support.invariants import violations
from threadbus.bus import Bus, BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import Recorded, TaskId

TASKS = 200
MOST_TASKS = 20_000
ASKERS = 25
KILLS = 24
LEAST = {"server": 2, "agent": 6}
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
            # A server that is killed over and over on a busy machine takes its time.
            patient = BusSettings(url=server.url, append_timeout=timedelta(seconds=100))
            async with connect(patient) as bus:
                finished = asyncio.Event()
                done = {"server": 0, "agent": 0}
                kills = asyncio.create_task(kill_at_random(server, team, chance, finished, done))
                numbers = itertools.count()
                asked = await asyncio.gather(
                    *(ask_until_killed_enough(bus, numbers, done) for _ in range(ASKERS))
                )
                finished.set()
                await kills
                tasks = list(itertools.chain.from_iterable(asked))
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
    assert done["server"] >= LEAST["server"]
    assert done["agent"] >= LEAST["agent"]


async def ask_until_killed_enough(
    bus: Bus, numbers: Iterator[int], done: dict[str, int]
) -> list[TaskId]:
    """Ask one question after the other; a fast machine asks more than the least number.

    The kills are what this is about, and how many fall into 200 super-tasks depends on the machine.
    """
    tasks: list[TaskId] = []
    for number in numbers:
        enough = done["server"] >= LEAST["server"] and done["agent"] >= LEAST["agent"]
        if number >= MOST_TASKS or (number >= TASKS and enough):
            break
        tasks.append(await one_task(bus, number))
    return tasks


async def one_task(bus: Bus, number: int) -> TaskId:
    answer = await bus.ask(
        f"q{number}",
        to=["front"],
        participants=["middle", "back"],
        timeout=timedelta(minutes=3),
    )
    assert answer.text == f"asked(ask q{number}) + done(do q{number})"
    return answer.task


async def kill_at_random(
    server: EmbeddedServer,
    team: list[AgentProcess],
    chance: random.Random,
    finished: asyncio.Event,
    counts: dict[str, int],
) -> None:
    while sum(counts.values()) < KILLS and not finished.is_set():
        try:
            async with asyncio.timeout(chance.uniform(0.1, 0.7)):
                await finished.wait()
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
