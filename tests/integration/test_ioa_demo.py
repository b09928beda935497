"""`bus demo ioa`: a team that finds itself, and the same with a member killed in its turn."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tests.support.agent_process import AgentProcess, agent_process
from tests.support.cli import ended, environment, process
from tests.support.invariants import violations
from tests.support.model_servers import playing
from tests.support.running_agents import find
from tests.support.tree import ROOT
from threadbus.agents.cli.results import Demo
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.teams.script import load_team
from threadbus.bus import connect
from threadbus.schemas import (
    AssignmentFinished,
    AssignmentMade,
    Event,
    HandlingEnded,
    Recorded,
    ThreadOpened,
    ThreadStateChanged,
    ToolCalled,
    decode_event,
)

ANSWER = "mean 14.1667, median 10; range 27, standard deviation 9.9"


def moves(events: list[Event]) -> list[tuple[str, str, bool]]:
    """Return who moved which conversation where, and whether that was a wake."""
    return [
        (event.sender, event.data.state.value, event.data.wakes is not None)
        for event in events
        if isinstance(event.data, ThreadStateChanged)
    ]


EXPECTED = [
    ("host", "async_assignment", False),
    ("analyst", "sync_assignment", False),
    ("analyst", "discussion", True),
    ("host", "discussion", True),
]


async def test_a_team_finds_itself_and_a_team_within(tmp_path: Path) -> None:
    """Searches, team, nested team, pauses that end by themselves, and results that go up."""
    async with process("demo", "ioa", "--json", env=environment(tmp_path), cwd=ROOT) as demo:
        ran = await ended(demo)
    result = ran.json(Demo)
    rows = [msgspec.json.decode(line) for line in Path(result.file).read_bytes().splitlines()]  # noqa: ASYNC240
    events = [decode_event(msgspec.json.encode(row["event"])) for row in rows]
    threads = {e.thread: e.data for e in events if isinstance(e.data, ThreadOpened)}
    (team, nested) = threads.values()

    assert (ran.code, ran.err) == (0, "")
    assert ANSWER in result.answer
    assert "the median is the value in the middle" in result.answer
    assert moves(events) == EXPECTED
    assert (team.participants, team.parent) == (("analyst", "glossary"), "main")
    assert set(nested.participants) == {"centre", "spread"}
    assert (nested.parent, nested.max_depth) == (next(iter(threads)), 0)
    assert "weather" not in {event.sender for event in events}


async def test_a_member_killed_in_its_turn_finishes_after_its_restart(
    bus_url: str, tmp_path: Path
) -> None:
    """The analyst dies between its searches and its team: one team, one result, one answer."""
    script = load_team("ioa")
    book = script.playbook.read_text(encoding="utf-8")
    # The model of the analyst takes long to decide, so that the kill falls into its turn.
    slow = book.replace('name = "team up below"\n', 'name = "team up below"\ndelay_ms = 1500\n', 1)
    assert slow != book
    async with playing(slow) as playbook, AsyncExitStack() as stack:
        environ = {
            "BUS_URL": bus_url,
            "BUS_MODEL": PLAYBOOK,
            "OPENAI_BASE_URL": playbook.base_url,
            "OPENAI_API_KEY": "none",
        }
        agents: dict[str, AgentProcess] = {}
        for name, target in script.agents.items():
            agents[name] = await stack.enter_async_context(agent_process(target, environ))
        bus = await stack.enter_async_context(connect(bus_url))
        opened = await bus.tasks.open(
            script.question(), to=script.to, participants=script.participants
        )
        task = opened.event.task
        await find(bus, task, ToolCalled, sender="analyst", count=2)
        await agents["analyst"].kill()
        before = await find(bus, task, HandlingEnded, sender="analyst", count=0)
        await agents["analyst"].start()
        answer = await bus.waits.for_answer(task)
        await find(bus, task, HandlingEnded, sender="host", count=3)
        items = [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]
    events = [item.event for item in items]

    assert before == []
    assert ANSWER in answer.text
    assert violations(task, items, list(agents)) == []
    assert moves(events) == EXPECTED
    for kind, count in ((ThreadOpened, 2), (AssignmentMade, 4), (AssignmentFinished, 4)):
        assert sum(isinstance(event.data, kind) for event in events) == count, kind
