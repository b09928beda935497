"""A model finds a team by searching the registry: bounded, and only of agents that it found."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from tests.support.model_servers import playing, settings_for
from tests.support.running_agents import log_of, ready, running, text, user_in_memory
from threadbus.agents import (
    Agent,
    AgentLimits,
    AgentRunner,
    Mention,
    TeamFormingError,
    form_team,
    from_callable,
)
from threadbus.agents.model import Model
from threadbus.bus import Bus
from threadbus.schemas import AnswerSubmitted, MentionDeadLettered, TaskClosed, ToolCalled

SEARCH = """
[[play]]
step = 1
[[play.call]]
tool = "find_agents"
arguments = { query = "count words" }
"""
ENDLESS = """
[[play]]
[[play.call]]
tool = "find_agents"
arguments = { query = "count words, attempt {{ turn }}" }
"""
TEAM_UP = """
[[play]]
after_tool = "find_agents"
[[play.call]]
tool = "team_up"
arguments = { members = [ %s ] }
"""
DONE = """
[[play]]
text = "{{ last }}"
"""


def host_with(rounds: int) -> Agent:
    """Return an agent that answers with its team."""
    agent = Agent("host", limits=AgentLimits(max_attempts=1))

    @agent.on_mention
    async def lead(mention: Mention) -> str:
        jobs = await form_team(mention, mention.text, max_rounds=rounds, max_members=2)
        return "; ".join(f"{job.assignee}: {job.content}" for job in jobs)

    return agent


def count(task: str) -> str:
    """Count the words of a text."""
    return str(len(task.split()))


async def outcome(user: Bus, toml: str, rounds: int = 10) -> tuple[str, int]:
    """Run a host on a playbook; return its answer or its error, and how often it searched."""
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
        running(from_callable(count, "counter"), user),
    ):
        runner = AgentRunner(host_with(rounds), user.acting_as("host"), model=model)
        work = asyncio.create_task(runner.run())
        await ready(runner, work)
        task = (await user.tasks.open("Count this", to=["host"])).event.task
        await user.waits.for_close(task)
        events = await log_of(user, task)
        runner.stop()
        await work
    data = [event.data for event in events]
    searches = [one for one in data if isinstance(one, ToolCalled) and one.tool == "find_agents"]
    answers = [text(event) for event in events if isinstance(event.data, AnswerSubmitted)]
    errors = [one.error.message for one in data if isinstance(one, MentionDeadLettered)]
    errors += [one.summary for one in data if isinstance(one, TaskClosed)]
    return next(iter(answers or errors)), len(searches)


def member(agent: str) -> str:
    """Return one member of a team as the playbook writes it."""
    return f'{{ agent = "{agent}", task = "count" }}'


async def test_a_team_is_found_and_decided_on() -> None:
    """What team_up names becomes jobs, when the searches gave those agents."""
    async with user_in_memory() as user:
        answer, searches = await outcome(user, SEARCH + TEAM_UP % member("counter") + DONE)

    assert (answer, searches) == ("counter: count", 1)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        (member("nobody"), "nobody did not come out of a search; found: counter"),
        (", ".join(map(member, ("a", "b", "c"))), "3 members, 1 to 2 are possible"),
        ("", "0 members"),
        (", ".join([member("counter")] * 65), "65 tasks, 64 are possible"),
    ],
)
async def test_only_a_team_of_agents_that_were_found_counts(members: str, problem: str) -> None:
    """A model that invents agents, or takes too many, is told so and fails."""
    async with user_in_memory() as user:
        error, _ = await outcome(user, SEARCH + TEAM_UP % members + DONE)

    assert "no team after 1 discovery rounds" in error
    assert problem in error


async def test_a_model_that_only_searches_fails_after_its_rounds() -> None:
    """The searches are counted by the tool, so the model cannot go on for ever."""
    async with user_in_memory() as user:
        error, calls = await outcome(user, ENDLESS, rounds=3)

    assert "no team after 3 discovery rounds" in error
    assert calls <= 6


async def test_a_model_that_does_not_search_at_all_fails() -> None:
    """A text instead of a decision is no team."""
    async with user_in_memory() as user:
        error, calls = await outcome(user, DONE)

    assert (calls, "did not call team_up" in error) == (0, True)


async def test_the_rounds_are_ten_at_most() -> None:
    """More is refused with the limit."""
    async with user_in_memory() as user:
        error, _ = await outcome(user, DONE, rounds=11)

    assert "1 to 10" in error


def test_the_error_of_forming_survives_pickling() -> None:
    """As all errors do."""
    error = TeamFormingError(3, "nobody")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert (str(again), again.rounds) == (str(error), 3)
