"""Stops, takeovers and the life of a name, with agents in processes of their own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.agent_process import agent_process
from tests.support.eventually import eventually
from tests.support.running_agents import find, log_of, quiet_task, running, text
from threadbus.agents import Agent, AgentRunner, Mention
from threadbus.bus import (
    AgentNameTakenError,
    AgentReplacedError,
    Bus,
    BusSettings,
    connect,
)
from threadbus.schemas import (
    MAIN_THREAD,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    PresenceState,
)

AGENTS = Path(__file__).parent.parent / "support" / "stubborn_agents.py"
WAIT = timedelta(seconds=30)


def stubborn(url: str, folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of an agent that has one second to stop."""
    return {"BUS_URL": url, "STUBBORN_FOLDER": str(folder), "BUS_DRAIN_TIMEOUT": "1", **more}


async def test_sigterm_lets_a_turn_end(bus_url: str, tmp_path: Path) -> None:
    """What is done within the deadline is answered before the process ends with 0."""
    async with (
        connect(bus_url) as bus,
        agent_process(
            f"{AGENTS}:patient", stubborn(bus_url, tmp_path, BUS_DRAIN_TIMEOUT="20")
        ) as agent,
    ):
        task = (await bus.tasks.open("short", to=["patient"])).event.task
        await eventually((tmp_path / "patient").exists, "the handler runs")
        assert await agent.terminate() == 0
        answer = await bus.waits.for_answer(task, timeout=WAIT)

    assert answer.text == "done at attempt 1"


async def test_what_a_stop_cuts_off_comes_again(bus_url: str, tmp_path: Path) -> None:
    """After the deadline the turn is recorded as aborted, and the next process handles it."""
    async with connect(bus_url) as bus:
        async with agent_process(f"{AGENTS}:patient", stubborn(bus_url, tmp_path)) as agent:
            task = (await bus.tasks.open("long", to=["patient"])).event.task
            await find(bus, task, HandlingStarted)
            assert await agent.terminate() == 0
            await find(bus, task, HandlingFailed)
        async with agent_process(f"{AGENTS}:patient", stubborn(bus_url, tmp_path)):
            answer = await bus.waits.for_answer(task, timeout=WAIT)

    assert answer.text == "done at attempt 2"


async def test_a_handler_that_ignores_the_stop_does_not_keep_the_process(
    bus_url: str, tmp_path: Path
) -> None:
    """The process ends by itself, with an exit code that says that it was not in order."""
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:deaf", stubborn(bus_url, tmp_path)) as agent,
    ):
        await bus.tasks.open("Q", to=["deaf"])
        await eventually((tmp_path / "deaf").exists, "the handler runs")
        async with asyncio.timeout(60):
            assert await agent.terminate() == 1


async def test_a_blocking_callable_does_not_keep_the_process(bus_url: str, tmp_path: Path) -> None:
    """A plain function in its thread is left behind at a stop; the mention comes again."""
    async with connect(bus_url) as bus:
        async with agent_process(f"{AGENTS}:blocking", stubborn(bus_url, tmp_path)) as agent:
            task = (await bus.tasks.open("Q", to=["blocking"])).event.task
            await eventually((tmp_path / "blocking").exists, "the function runs")
            async with asyncio.timeout(60):
                assert await agent.terminate() == 0
        (failed,) = await find(bus, task, HandlingFailed)

    assert failed.sender == "blocking"


async def test_a_handler_cannot_end_the_process(bus_url: str, tmp_path: Path) -> None:
    """SystemExit fails the turn; the same process handles the next mention."""
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:leaving", stubborn(bus_url, tmp_path)) as agent,
    ):
        task = await quiet_task(bus, "leaving")
        sent = await bus.send(task, MAIN_THREAD, "exit", mentions=["leaving"])
        await find(bus, task, MentionDeadLettered, cause=sent.event.id)
        reply = await bus.request(task, MAIN_THREAD, "hello", to="leaving", timeout=WAIT)

        assert text(reply) == f"still here as {agent.process.pid}"


async def test_a_blocked_event_loop_handles_once_what_comes_again(
    bus_url: str, tmp_path: Path
) -> None:
    """The lease runs out while the handler blocks; the same mention is not handled twice."""
    async with (
        connect(bus_url) as bus,
        agent_process(f"{AGENTS}:frozen", stubborn(bus_url, tmp_path, BUS_ACK_WAIT="1")),
    ):
        task = await quiet_task(bus, "frozen")
        await bus.send(task, MAIN_THREAD, "block", mentions=["frozen"])
        await bus.send(task, MAIN_THREAD, "next", mentions=["frozen"])
        await find(bus, task, HandlingEnded, count=2)
        reply = await bus.request(task, MAIN_THREAD, "last", to="frozen", timeout=WAIT)
        await find(bus, task, HandlingEnded, count=3)
        log = await log_of(bus, task)

    assert text(reply) == "thawed"
    assert (tmp_path / "blocked").read_text() == "once\n"
    assert sum(isinstance(event.data, HandlingEnded) for event in log) == 3


async def test_a_name_is_held_by_one_living_process(bus_url: str, tmp_path: Path) -> None:
    """A second process of the same name is told who holds it; after a kill it may start at once."""
    async with connect(bus_url) as bus:
        async with agent_process(f"{AGENTS}:patient", stubborn(bus_url, tmp_path)) as first:
            runner = AgentRunner(replier("patient", "second"), bus.acting_as("patient"))
            with pytest.raises(AgentNameTakenError) as taken:
                await runner.run()
            assert taken.value.pid == first.process.pid
            await first.kill()
        async with running(replier("patient", "second"), bus):
            assert (await bus.ask("Q", to=["patient"], timeout=WAIT)).text == "second"


async def test_a_takeover_stops_the_old_one_after_its_turn(bus_url: str) -> None:
    """The old one finishes what it has begun and says who replaced it; nothing is handled twice."""
    release = asyncio.Event()
    old, seen = Agent("heir"), list[str]()

    @old.on_mention
    async def work(mention: Mention) -> str:
        seen.append(mention.text)
        await release.wait()
        return "old"

    async with connect(bus_url) as bus, connect(bus_url) as other:
        first = AgentRunner(old, bus.acting_as("heir"), holder="old-holder")
        first_run = asyncio.create_task(first.run())
        await first.ready.wait()
        task = (await bus.tasks.open("Q", to=["heir"])).event.task
        await find(bus, task, HandlingStarted)
        second = AgentRunner(
            replier("heir", "new"), other.acting_as("heir"), holder="new-holder", takeover=True
        )
        second_run = asyncio.create_task(second.run())
        await eventually(
            lambda: state_of(bus, "heir", PresenceState.DRAINING), "the old one drains"
        )
        release.set()
        with pytest.raises(AgentReplacedError, match="new-holder"):
            await first_run
        await second.ready.wait()
        assert (await bus.waits.for_answer(task, timeout=WAIT)).text == "old"
        assert (await bus.ask("Q", to=["heir"], timeout=WAIT)).text == "new"
        second.stop()
        await second_run

    assert seen == ["Q"]


async def test_presence_says_idle_busy_and_draining(bus_url: str) -> None:
    """Others see what an agent does, and that it is gone."""
    release = asyncio.Event()
    agent = Agent("seen")

    @agent.on_mention
    async def work(mention: Mention) -> str:
        await release.wait()
        return "done"

    async with connect(BusSettings(url=bus_url, presence_ttl=timedelta(seconds=3))) as bus:
        async with running(agent, bus) as runner:
            await eventually(lambda: state_of(bus, "seen", PresenceState.IDLE), "idle")
            await bus.tasks.open("count the pages", to=["seen"])
            await eventually(lambda: state_of(bus, "seen", PresenceState.BUSY), "busy")
            (beat,) = await bus.registry.presence("seen")
            runner.stop()
            await eventually(lambda: state_of(bus, "seen", PresenceState.DRAINING), "draining")
            release.set()
        assert beat.busy_with == "'count the pages' in main"
        assert await bus.registry.presence("seen") == []


def replier(name: str, reply: str) -> Agent:
    """Return an agent that says one thing."""
    agent = Agent(name)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return reply

    return agent


async def state_of(bus: Bus, name: str, state: PresenceState) -> bool:
    """Whether an instance of *name* is in *state*."""
    return any(beat.state is state for beat in await bus.registry.presence(name))
