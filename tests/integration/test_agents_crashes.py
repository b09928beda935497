"""An agent that is killed at any place of a turn still answers once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.agent_process import AgentProcess, agent_process
from tests.support.eventually import eventually
from tests.support.invariants import violations
from tests.support.running_agents import find
from threadbus.bus import Bus, connect
from threadbus.schemas import (
    ArtifactAdded,
    AssignmentMade,
    HandlingEnded,
    InputRequested,
    MessagePosted,
    Recorded,
    TaskId,
    ThreadOpened,
)

AGENTS = Path(__file__).parent.parent / "support" / "dying_agents.py"
PLACES = [
    "received",
    "said",
    "opened",
    "asked",
    "assigned",
    "given",
    "saved",
    "before-answer",
    "after-answer",
    "before-close",
    "after-close",
    "before-ended",
    "after-ended",
    "before-ack",
    "after-ack",
]


@pytest.mark.parametrize("place", PLACES)
async def test_a_crash_anywhere_in_a_turn_ends_in_one_answer(
    bus_url: str, tmp_path: Path, place: str
) -> None:
    """Whatever was appended before the crash is found again, nothing is appended twice."""
    mark = tmp_path / "died"
    environ = {"BUS_URL": bus_url, "DIE_AT": place, "DIE_MARK": str(mark)}
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:helper", {"BUS_URL": bus_url}),
        agent_process(f"{AGENTS}:agent", environ) as mortal,
    ):
        opened = await bus.tasks.open("Q", to=["mortal"], participants=["helper"])
        task = opened.event.task
        giving = asyncio.create_task(give_input(bus, task))
        if await ended_by_itself(mortal, mark):
            await mortal.start()
        answer = await bus.waits.for_answer(task)
        await giving
        await find(bus, task, HandlingEnded, sender="mortal")
        items = [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]

    assert mark.exists()
    assert answer.text == "helped helped red"
    assert violations(task, items, ["mortal", "helper"]) == []
    once = [InputRequested, AssignmentMade, ThreadOpened, ArtifactAdded]
    for kind in once:
        assert sum(isinstance(item.event.data, kind) for item in items) == 1, kind
    said = [item.event for item in items if isinstance(item.event.data, MessagePosted)]
    assert [event.sender for event in said] == ["mortal", "mortal", "helper"]


async def give_input(bus: Bus, task: TaskId) -> None:
    """Answer the question that the agent asks."""
    (request,) = await find(bus, task, InputRequested)
    await bus.tasks.give_input(task, "red", request=request.id)


async def ended_by_itself(agent: AgentProcess, mark: Path) -> bool:
    """Wait until the agent has killed itself."""
    await eventually(mark.exists, "the agent reaches the place where it dies")
    return await agent.process.wait() != 0
