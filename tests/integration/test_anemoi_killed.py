"""The Anemoi team with a worker killed in the middle of its turn: the answer is the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tests.support.agent_process import AgentProcess
from tests.support.cli import ended, environment, process
from tests.support.invariants import violations
from tests.support.local_site import Page, local_site
from tests.support.running_agents import find
from threadbus.agents.cli.results import Demo
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.agents.teams.anemoi.site import PAGES
from threadbus.bus import connect
from threadbus.schemas import (
    AnswerSubmitted,
    AssignmentFinished,
    ConsensusReached,
    CritiqueGiven,
    CritiqueVerdict,
    Event,
    HandlingEnded,
    PlanProposed,
    PlanRevised,
    Recorded,
    TextPart,
    ToolCalled,
    VoteCast,
    decode_event,
    text_of,
)


async def test_a_worker_killed_in_its_turn_finishes_after_its_restart(bus_url: str) -> None:
    """SIGKILL while the page is being fetched; the answer is right and nothing is there twice."""
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
        await agents["web"].kill()
        gate.set()
        await agents["web"].start(wait_ready=False)
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
    fetched = [item for item in items if isinstance(item.event.data, ToolCalled)]
    assert sum(call.event.data == calls[-1].data for call in fetched) == 2


def own_host(text: str) -> str:
    """Return the host that the question of the demonstration names."""
    return text.partition("http://")[2].partition("/")[0]


async def test_the_demo_shows_the_whole_protocol(tmp_path: Path) -> None:
    """Plan, doubt, revision, vote and answer are events, in this order, in the exported log."""
    async with process("demo", "anemoi", "--json", env=environment(tmp_path)) as demo:
        ran = await ended(demo)
    assert (ran.code, ran.err) == (0, "")
    events = exported(ran.json(Demo).file)

    (plan,) = of(events, PlanProposed)
    (revised,) = of(events, PlanRevised)
    critiques = of(events, CritiqueGiven)
    (consensus,) = of(events, ConsensusReached)
    (answer,) = of(events, AnswerSubmitted)
    assert isinstance(revised.data, PlanRevised)
    assert revised.data.replaces == plan.id
    verdicts = [c.data.verdict for c in critiques if isinstance(c.data, CritiqueGiven)]
    assert Counter(verdicts) == {CritiqueVerdict.ACCEPT: 3, CritiqueVerdict.UNCERTAIN: 1}
    assert isinstance(consensus.data, ConsensusReached)
    assert len(consensus.data.approvals) >= 3
    order = [plan, revised, of(events, VoteCast)[0], consensus, answer]
    assert [events.index(one) for one in order] == sorted(events.index(one) for one in order)
    assert answer.sender == "answer-finding"
    assert isinstance(answer.data, AnswerSubmitted)
    accepted = {
        c.data.of
        for c in critiques
        if isinstance(c.data, CritiqueGiven) and c.data.verdict is CritiqueVerdict.ACCEPT
    }
    assert set(answer.data.sources) == accepted
    assert "41,942" in text_of(answer.data.parts)


def exported(file: str) -> list[Event]:
    """Return the events of an exported log."""
    rows = [msgspec.json.decode(line) for line in Path(file).read_bytes().splitlines()]
    return [decode_event(msgspec.json.encode(row["event"])) for row in rows]


def of(events: list[Event], kind: type) -> list[Event]:
    """Return the events of a kind."""
    return [event for event in events if isinstance(event.data, kind)]
