"""The Anemoi team with an agent killed in the middle of its turn: the answer is the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from tests.support.agent_process import AgentProcess
from tests.support.invariants import violations
from tests.support.local_site import Page, local_site
from tests.support.running_agents import find
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.agents.teams.anemoi.site import PAGES
from threadbus.bus import connect
from threadbus.schemas import (
    AnswerSubmitted,
    AssignmentFinished,
    ConsensusReached,
    Event,
    HandlingEnded,
    HandlingStarted,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    Recorded,
    TextPart,
    ToolCalled,
)


@pytest.mark.parametrize("victim", ["web", "planner"])
async def test_who_is_killed_in_its_turn_finishes_after_its_restart(
    bus_url: str, victim: str
) -> None:
    """SIGKILL while a page is being fetched; the answer is right and nothing is there twice."""
    gate = asyncio.Event()
    pages = {path: Page(body.encode()) for path, body in PAGES.items()}
    pages["/corrections.html"].gate = gate
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(local_site(pages))
        playbook = await stack.enter_async_context(PlaybookServer(SCRIPT.playbook))
        environ = {
            "BUS_URL": bus_url,
            "BUS_ACK_WAIT": "2",
            # Everybody has to vote, so that no turn is cut off by the end of the task.
            "BUS_ANEMOI_QUORUM": "1",
            "BUS_MODEL": PLAYBOOK,
            "OPENAI_BASE_URL": playbook.base_url,
            "OPENAI_API_KEY": "none",
            "BUS_WEB_ALLOW": site.host,
            "BUS_WEB_SECONDS": "60",
        }
        bus = await stack.enter_async_context(connect(bus_url, name="user"))
        agents = {name: AgentProcess(target, environ) for name, target in SCRIPT.agents.items()}
        for agent in agents.values():
            stack.push_async_callback(agent.kill)
            await agent.start(wait_ready=False)
        await asyncio.gather(*(agent.ready() for agent in agents.values()))
        question = [
            TextPart(part.text.replace(own_host(part.text), site.host))
            if isinstance(part, TextPart)
            else part
            for part in SCRIPT.question()
        ]
        opened = await bus.tasks.open(question, to=SCRIPT.to, participants=SCRIPT.participants)
        task = opened.event.task
        # Its third page: the rules, the rules again, and the corrections, which do not come.
        calls: list[Event] = []
        for count in (1, 2, 3):
            calls = await find(bus, task, ToolCalled, sender="web", count=count)
        assert "/corrections.html" in str(calls[-1].data)
        await agents[victim].kill()
        gate.set()
        await agents[victim].start(wait_ready=False)
        answer = await bus.waits.for_answer(task)
        await find(bus, task, HandlingEnded, sender="answer-finding", count=4)
        items = [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]

    assert "41,942" in answer.text
    assert "42,000" in answer.text
    assert violations(task, items, list(SCRIPT.agents)) == []
    finished = Counter(
        item.event.data.assignment
        for item in items
        if isinstance(item.event.data, AssignmentFinished)
    )
    assert set(finished.values()) == {1}
    for kind in (PlanProposed, PlanRevised, ProposalMade, ConsensusReached, AnswerSubmitted):
        assert sum(isinstance(item.event.data, kind) for item in items) == 1, kind
    again = [
        item.event.sender
        for item in items
        if isinstance(item.event.data, HandlingStarted) and item.event.data.attempt == 2
    ]
    assert again == [victim]


def own_host(text: str) -> str:
    """Return the host that the question of the demonstration names."""
    return text.partition("http://")[2].partition("/")[0]
