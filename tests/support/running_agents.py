"""Agents run inside a test: started, looked at and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from tests.support.eventually import eventually
from threadbus.agents import Agent, AgentLimits, AgentRunner, Mention
from threadbus.bus import Bus, BusSettings
from threadbus.bus.testing import connect_in_memory
from threadbus.schemas import AgentCard, Event, EventData, EventId, Parts, Recorded, TaskId, text_of


@asynccontextmanager
async def running(
    agent: Agent, bus: Bus, *, holder: str = "", replicas: int = 1, takeover: bool = False
) -> AsyncGenerator[AgentRunner]:
    """Run *agent* over a connection; at the end it is stopped and its end is awaited."""
    runner = AgentRunner(
        agent, bus.acting_as(agent.name), holder=holder, replicas=replicas, takeover=takeover
    )
    work = asyncio.create_task(runner.run(), name=f"test.{agent.name}")
    try:
        await ready(runner, work)
        yield runner
    finally:
        runner.stop()
        await asyncio.wait({work})
    await work


async def ready(runner: AgentRunner, work: asyncio.Task[None]) -> None:
    """Wait until *runner* takes mentions; what stops it from doing so is raised."""
    waiting = asyncio.create_task(runner.ready.wait())
    async with asyncio.timeout(20):
        await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if work.done():
        work.result()


async def log_of(bus: Bus, task: TaskId) -> list[Event]:
    """Return the events of a super-task, in log order."""
    return [entry.event async for entry in bus.read(task) if isinstance(entry, Recorded)]


async def find(
    bus: Bus,
    task: TaskId,
    kind: type[EventData],
    *,
    cause: EventId | None = None,
    sender: str = "",
    count: int = 1,
) -> list[Event]:
    """Wait until there are *count* events of a kind, and return all that there are."""
    found: list[Event] = []

    async def enough() -> bool:
        found[:] = [
            event
            for event in await log_of(bus, task)
            if isinstance(event.data, kind)
            and cause in {None, event.cause}
            and sender in {"", event.sender}
        ]
        return len(found) >= count

    await eventually(enough, f"{count} {kind.__name__} in {task}")
    return found


def kinds(events: Sequence[Event], sender: str = "") -> list[str]:
    """Return the types of events, those of one sender when given."""
    return [event.type for event in events if sender in {"", event.sender}]


def text(event: Event) -> str:
    """Return what an event says."""
    parts: Parts = getattr(event.data, "parts", ())
    return text_of(parts)


@asynccontextmanager
async def user_in_memory() -> AsyncGenerator[Bus]:
    """Give a bus in memory on which the user is registered."""
    settings = BusSettings(drain_timeout=timedelta(seconds=2))
    async with connect_in_memory("user", settings=settings) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="test")
        yield bus


async def quiet_task(user: Bus, agent: str = "web") -> TaskId:
    """Open a super-task that asks nobody but the user; *agent* takes part."""
    await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
    return (await user.tasks.open("Q", to=["user"], participants=[agent])).event.task


def agent_of(reply: object, limits: AgentLimits | None = None) -> Agent:
    """Return an agent *web* that always returns *reply*, and tries once unless told else."""
    agent = Agent("web", limits=limits or AgentLimits(max_attempts=1))

    @agent.on_mention
    async def handle(mention: Mention) -> Any:
        return reply

    return agent
