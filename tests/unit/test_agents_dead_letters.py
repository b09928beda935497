"""What cannot be handled ends there: it starts no storm, and holds nothing up behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.eventually import eventually
from tests.support.running_agents import find, kinds, log_of, quiet_task, running, user_in_memory
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Bus
from threadbus.schemas import MAIN_THREAD as MAIN
from threadbus.schemas import HandlingEnded, MentionDeadLettered, Recorded

TWICE = AgentLimits(max_attempts=2, first_retry=timedelta(0))


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with user_in_memory() as bus:
        yield bus


def failing(name: str, heard: list[str]) -> Agent:
    """Make an agent that fails at everything, at what it is told of failures too."""
    agent = Agent(name, limits=TWICE)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        raise RuntimeError(f"{name} cannot do it")

    @agent.on_dead_letter
    async def hear(letter: Recorded) -> None:
        heard.append(name)
        raise RuntimeError(f"{name} cannot even hear of it")

    return agent


async def test_failures_of_two_agents_start_no_storm(user: Bus) -> None:
    """Each hears once that the other gave up, fails at that, and nothing more comes of it."""
    heard: list[str] = []
    async with running(failing("left", heard), user), running(failing("right", heard), user):
        task = await quiet_task(user, "left")
        await user.threads.add(task, MAIN, "right")
        first = await user.acting_as("left").send(task, MAIN, "Do it.", mentions=["right"])
        second = await user.acting_as("right").send(task, MAIN, "You do.", mentions=["left"])
        for sent in (first, second):
            await find(user, task, MentionDeadLettered, cause=sent.event.id)
        await eventually(lambda: len(heard) == 2, "both heard of it")
        # What would have been woken by it comes before what is asked now.
        last = await user.send(task, MAIN, "And?", mentions=["left", "right"])
        await find(user, task, MentionDeadLettered, cause=last.event.id, count=2)
        events = await log_of(user, task)

    assert sorted(heard) == ["left", "right"]
    assert kinds(events).count("mention.dead_lettered") == 4
    assert kinds(events).count("message.posted") == 3


@pytest.mark.parametrize("poison", ["raises", "hangs"])
async def test_what_waits_behind_a_poisoned_mention_is_handled(user: Bus, poison: str) -> None:
    """One that fails in every attempt, or takes too long in each, costs none of those behind it."""
    seen: list[str] = []
    limits = AgentLimits(
        max_attempts=2, first_retry=timedelta(0), turn_timeout=timedelta(milliseconds=200)
    )
    agent = Agent("web", limits=limits)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        if mention.text == "raises":
            raise ValueError("poison")
        if mention.text == "hangs":
            await eventually(lambda: False, "never")
        seen.append(mention.text)
        return "fine"

    async with running(agent, user):
        task = await quiet_task(user)
        for text in ("before", poison, *map(str, range(8))):
            await user.send(task, MAIN, text, mentions=["web"])
        ended = await find(user, task, HandlingEnded, count=9)
        (dead,) = await find(user, task, MentionDeadLettered)

    assert seen == ["before", *map(str, range(8))]
    assert len(ended) == 9
    assert dead.mentions == ("user",)
