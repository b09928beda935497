"""The York team as processes: the demo, and a solution agent that is killed in its turn."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from tests.support.agent_process import AgentProcess, agent_process
from tests.support.cli import ended, environment, process
from tests.support.invariants import violations
from tests.support.running_agents import find
from tests.support.tree import ROOT
from threadbus.agents.cli.results import Demo
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.york.script import SCRIPT
from threadbus.bus import connect
from threadbus.schemas import (
    AssignmentMade,
    HandlingEnded,
    InputRequested,
    Recorded,
    text_of,
)


def read(file: str) -> bytes:
    """Return what is in a file."""
    return Path(file).read_bytes()


async def test_the_demo_makes_a_library_in_three_attempts(tmp_path: Path) -> None:
    """A question in the middle, one attempt wrong in form, one in meaning, then the model."""
    async with process("demo", "york", "--json", env=environment(tmp_path), cwd=ROOT) as demo:
        ran = await ended(demo)

    assert (ran.code, ran.err) == (0, "")
    result = ran.json(Demo)
    assert "valid in form and meaning after attempt 3" in result.answer
    assert "attempt 1, syntax: line 4, column 8: there is no type 'Strin'" in result.answer
    assert "attempt 2, semantics" in result.answer
    assert "ref Writer[1..*]#books writers;" in result.answer
    assert b"May a book have several writers?" in read(result.file)


async def test_a_solution_that_is_killed_in_its_turn_goes_on_after_its_restart(
    bus_url: str,
) -> None:
    """SIGKILL while it waits for the requester: nothing is asked or assigned a second time."""
    async with AsyncExitStack() as stack:
        playbook = await stack.enter_async_context(PlaybookServer(SCRIPT.playbook))
        environ = {
            "BUS_URL": bus_url,
            "BUS_MODEL": PLAYBOOK,
            "OPENAI_BASE_URL": playbook.base_url,
            "OPENAI_API_KEY": "none",
        }
        user = await stack.enter_async_context(connect(bus_url, name="user"))
        agents: dict[str, AgentProcess] = {
            name: await stack.enter_async_context(agent_process(target, environ, "--takeover"))
            for name, target in SCRIPT.agents.items()
        }
        opened = await user.tasks.open(
            SCRIPT.question(), to=SCRIPT.to, participants=SCRIPT.participants
        )
        task = opened.event.task
        (request,) = await find(user, task, InputRequested)
        await agents["solution"].kill()
        await user.tasks.give_input(task, "At least one.", request=request.id)
        await agents["solution"].start()
        answer = await user.waits.for_answer(task, timeout=timedelta(seconds=60))
        await find(user, task, HandlingEnded, sender="collaboration")
        items = [entry async for entry in user.read(task) if isinstance(entry, Recorded)]

    assert "after attempt 3" in text_of(answer.parts)
    assert violations(task, items, list(SCRIPT.agents)) == []
    events = [item.event for item in items]
    assert sum(isinstance(event.data, InputRequested) for event in events) == 1
    made = [event.data for event in events if isinstance(event.data, AssignmentMade)]
    assert [one.assignee for one in made] == [
        *("solution", "syntax"),
        *("solution", "syntax", "semantics"),
        *("solution", "syntax", "semantics"),
    ]
