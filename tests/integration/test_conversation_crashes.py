"""A pause outlives every process: whoever dies, the lead is woken once and there is one answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.agent_process import agent_process
from tests.support.eventually import eventually
from tests.support.invariants import violations
from tests.support.running_agents import find
from threadbus.bus import connect
from threadbus.schemas import (
    AssignmentFinished,
    AssignmentMade,
    HandlingEnded,
    HandlingStarted,
    Recorded,
    ThreadOpened,
    ThreadStateChanged,
)

AGENTS = Path(__file__).parent.parent / "support" / "pausing_agents.py"


@pytest.mark.parametrize(
    ("who", "place"),
    [
        ("lead", "opened"),
        ("lead", "assigned"),
        ("lead", "woken"),
        ("lead", "concluded"),
        ("worker", "working"),
    ],
)
async def test_a_crash_around_a_pause_wakes_once(
    bus_url: str, tmp_path: Path, who: str, place: str
) -> None:
    """Team, work, wake and result stand once, wherever the lead or the worker dies."""
    mark = tmp_path / "died"
    mortal = {"BUS_URL": bus_url, "DIE_AT": place, "DIE_MARK": str(mark)}
    environ = {"lead": {"BUS_URL": bus_url}, "worker": {"BUS_URL": bus_url}} | {who: mortal}
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:worker", environ["worker"]) as worker,
        agent_process(f"{AGENTS}:lead", environ["lead"]) as lead,
    ):
        task = (await bus.tasks.open("Q", to=["lead"], participants=["worker"])).event.task
        dying = lead if who == "lead" else worker
        await eventually(mark.exists, "the agent reaches the place where it dies")
        await dying.process.wait()
        await dying.start()
        answer = await bus.waits.for_answer(task)
        await find(bus, task, HandlingEnded, sender="lead", count=3)

        async def logged() -> list[Recorded]:
            return [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]

        async def is_settled() -> bool:
            return violations(task, await logged(), ["lead", "worker"]) == []

        # The end of a turn is told after what was said in it, and a kill in between delays it.
        await eventually(is_settled, "every mention to be handled, and nothing twice")
        items = await logged()

    assert answer.text == "left done, right done"
    moves = [item.event.data for item in items if isinstance(item.event.data, ThreadStateChanged)]
    assert [move.state.value for move in moves] == ["async_assignment", "discussion"]
    for kind, count in ((ThreadOpened, 1), (AssignmentMade, 2), (AssignmentFinished, 2)):
        assert sum(isinstance(item.event.data, kind) for item in items) == count, kind


async def test_a_lead_that_is_dead_when_the_work_ends_is_woken_when_it_is_back(
    bus_url: str, tmp_path: Path
) -> None:
    """The pause waits in the inbox of the lead, and no other process has to remember it."""
    gate = tmp_path / "gate"
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:worker", {"BUS_URL": bus_url, "GATE": str(gate)}),
        agent_process(f"{AGENTS}:lead", {"BUS_URL": bus_url}) as lead,
    ):
        task = (await bus.tasks.open("Q", to=["lead"], participants=["worker"])).event.task
        await find(bus, task, HandlingStarted, sender="worker")
        await lead.kill()
        gate.touch()
        await find(bus, task, AssignmentFinished, count=2)
        before = await find(bus, task, ThreadStateChanged)
        await lead.start()
        answer = await bus.waits.for_answer(task)
        after = await find(bus, task, ThreadStateChanged, count=2)

    assert answer.text == "left done, right done"
    assert (len(before), len(after)) == (1, 2)


async def test_a_stopped_lead_gives_its_pauses_back_at_once(bus_url: str, tmp_path: Path) -> None:
    """A pause keeps no agent from stopping in order, and the next process takes it up."""
    gate = tmp_path / "gate"
    environ = {"BUS_URL": bus_url, "BUS_DRAIN_TIMEOUT": "60"}
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:worker", environ | {"GATE": str(gate)}),
        agent_process(f"{AGENTS}:lead", environ) as lead,
    ):
        task = (await bus.tasks.open("Q", to=["lead"], participants=["worker"])).event.task
        await find(bus, task, HandlingStarted, sender="worker")
        await find(bus, task, HandlingEnded, sender="lead")
        async with asyncio.timeout(30):
            assert await lead.terminate() == 0
        await lead.start()
        gate.touch()
        answer = await bus.waits.for_answer(task)

    assert answer.text == "left done, right done"
