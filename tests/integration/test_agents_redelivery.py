"""What comes again: after a restart of the server, and long after the log has forgotten its id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.support.eventually import eventually
from tests.support.nats_server import running_nats_server
from tests.support.running_agents import find, log_of, running, text
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Bus, BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AnswerSubmitted,
    HandlingEnded,
    HandlingStarted,
    MessagePosted,
    TaskClosed,
    TaskId,
    as_parts,
    derive_event_id,
)

WAIT = timedelta(seconds=30)


@pytest.fixture
async def forgetful_url(tmp_path: Path) -> AsyncIterator[str]:
    """A server whose log refuses an id that it has for a tenth of a second only."""
    with running_nats_server(tmp_path) as server:
        async with connect(server.url):
            pass
        client = Client()
        await client.connect(server.url)
        info = json.loads((await client.request("$JS.API.STREAM.INFO.BUS")).data)
        config = {**info["config"], "duplicate_window": 100_000_000}
        answer = await client.request("$JS.API.STREAM.UPDATE.BUS", json.dumps(config).encode())
        assert "error" not in json.loads(answer.data)
        await client.close()
        yield server.url


async def test_a_redelivery_beyond_the_window_has_no_second_answer(forgetful_url: str) -> None:
    """Everything was appended and nothing acknowledged: the next process appends nothing more."""
    cut = Agent("slow", limits=AgentLimits(max_attempts=5))
    runs: list[int] = []

    @cut.on_mention
    async def handle(mention: Mention) -> str:
        runs.append(mention.attempt)
        await mention.say(f"run {len(runs)}")
        await mention.ask("helper", f"question {len(runs)}")
        if len(runs) == 1:
            await asyncio.Event().wait()
        return f"answer {len(runs)}"

    helper = Agent("helper")

    @helper.on_mention
    async def help_out(mention: Mention) -> str:
        return "helped"

    settings = BusSettings(url=forgetful_url, drain_timeout=timedelta(seconds=0.1))
    async with connect(settings) as bus, running(helper, bus):
        async with running(cut, bus):
            task = (await bus.tasks.open("Q", to=["slow"], participants=["helper"])).event.task
            await find(bus, task, MessagePosted, sender="helper")
        async with running(cut, bus):
            answer = await bus.waits.for_answer(task, timeout=WAIT)
            await find(bus, task, HandlingEnded, sender="slow")
        log = await log_of(bus, task)

    assert answer.text == "answer 2"
    said = [text(event) for event in log if isinstance(event.data, MessagePosted)]
    assert said == ["run 1", "question 1", "helped"]
    assert sum(isinstance(event.data, AnswerSubmitted) for event in log) == 1


async def test_an_answer_without_its_close_is_closed_and_not_repeated(forgetful_url: str) -> None:
    """The process died between the two; the log has forgotten the id of the answer since."""
    agent = Agent("half")
    runs: list[str] = []

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        runs.append(mention.text)
        return "again"

    async with connect(forgetful_url) as bus:
        await bus.registry.register(agent.card, holder="dead")
        opened = await bus.tasks.open("Q", to=["half"])
        task, half = opened.event.task, bus.acting_as("half")
        await half.append(
            AnswerSubmitted(parts=as_parts("first")),
            task=task,
            cause=opened.event.id,
            event_id=derive_event_id(opened.event.id, half.name, "reply"),
        )
        await eventually(lambda: waits_for(bus, "half"), "the mention is in the inbox")
        async with running(agent, bus):
            answer = await bus.waits.for_answer(task, timeout=WAIT)
            await find(bus, task, HandlingEnded)
        log = await log_of(bus, task)

    assert answer.text == "first"
    assert runs == []
    assert sum(isinstance(event.data, AnswerSubmitted) for event in log) == 1
    assert sum(isinstance(event.data, TaskClosed) for event in log) == 1


async def test_a_restart_of_the_server_does_not_run_a_handler_twice(tmp_path: Path) -> None:
    """The mention is delivered again to the process that works on it: it joins the turn."""
    release, runs = asyncio.Event(), list[str]()
    agent = Agent("steady")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        runs.append(mention.text)
        await release.wait()
        return "done"

    async with EmbeddedServer(tmp_path) as server:
        settings = BusSettings(url=server.url, ack_wait=timedelta(seconds=2))
        async with connect(settings) as bus, running(agent, bus):
            task = (await bus.tasks.open("Q", to=["steady"])).event.task
            await find(bus, task, HandlingStarted)
            await server.kill()
            await server.start()
            # Taken from the inbox as it is after the restart, so the first one has come again too.
            other = (await bus.tasks.open("after", to=["steady"])).event.task
            await find(bus, other, HandlingStarted)
            release.set()
            await bus.waits.for_answer(task, timeout=WAIT)
            await bus.waits.for_answer(other, timeout=WAIT)
            await eventually(lambda: nothing_waits(bus), "everything is acknowledged")
            log = await log_of(bus, task)

    assert sorted(runs) == ["Q", "after"]
    assert sum(isinstance(event.data, HandlingEnded) for event in log) == 1


async def test_a_killer_mention_is_given_up_in_the_end(bus_url: str) -> None:
    """Attempts that left only their beginning in the log count, also those of a dead process."""
    agent = Agent("victim", limits=AgentLimits(max_attempts=2))
    runs: list[int] = []

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        runs.append(mention.attempt)
        return "survived"

    async with connect(bus_url) as bus:
        await bus.registry.register(agent.card, holder="dead")
        opened = await bus.tasks.open("Q", to=["victim"])
        for attempt in (1, 2):
            await bus.acting_as("victim").append(
                HandlingStarted(attempt=attempt), task=opened.event.task, cause=opened.event.id
            )
        await eventually(lambda: waits_for(bus, "victim"), "the mention is in the inbox")
        async with running(agent, bus):
            closed = await bus.waits.for_close(opened.event.task, timeout=WAIT)

    assert runs == []
    assert "2 attempts ended badly" in str(closed.data)


async def test_two_askers_with_equal_questions_get_their_own_answers(bus_url: str) -> None:
    """Two agents ask a third the same thing at the same place of their turns."""
    third = Agent("third")

    @third.on_mention
    async def answer(mention: Mention) -> str:
        return f"for {mention.sender}"

    def asker(name: str) -> Agent:
        agent = Agent(name)

        @agent.on_mention
        async def handle(mention: Mention) -> str:
            return await mention.ask("third", "1")

        return agent

    async with (
        connect(bus_url) as bus,
        running(third, bus),
        running(asker("a"), bus),
        running(asker("b"), bus),
    ):
        await bus.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        opened = await bus.tasks.open("Q", to=["user"], participants=["a", "b", "third"])
        replies = await asyncio.gather(*(ask(bus, opened.event.task, name) for name in ("a", "b")))

    assert replies == ["for a", "for b"]


async def ask(bus: Bus, task: TaskId, name: str) -> str:
    """Ask one agent and return what it says."""
    return text(await bus.request(task, MAIN_THREAD, "go", to=name, timeout=WAIT))


async def nothing_waits(bus: Bus) -> bool:
    """Whether every inbox is empty."""
    return not any((await bus.pending_mentions()).values())


async def waits_for(bus: Bus, name: str) -> bool:
    """Whether a mention waits for an agent."""
    return (await bus.pending_mentions()).get(name, 0) > 0
