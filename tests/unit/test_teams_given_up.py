"""Teams whose lead gives up: whoever asked is told at once, however deep the team lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from tests.support.running_agents import log_of, running, user_in_memory
from threadbus.agents import Agent, AgentLimits, Floor, GiveUpError, Mention, open_team
from threadbus.bus import Bus, Job, TaskFailedError
from threadbus.schemas import AssignmentMade, TaskClosed, TaskId, TaskOpened, ThreadClosed

WAIT = timedelta(seconds=30)


def lead_of(
    name: str, member: str, *, talks: bool = False, opens: bool = True, bare: bool = False
) -> Agent:
    """Return an agent that has everything done by *member*, and gives up where that fails."""
    agent = Agent(name, limits=AgentLimits(max_attempts=1))

    @agent.on_mention
    async def lead(mention: Mention) -> None:
        if isinstance(mention.event.data, TaskOpened | AssignmentMade):
            made = mention.event.id if isinstance(mention.event.data, AssignmentMade) else None
            floor = Floor(mention)
            if opens:
                floor = await open_team(
                    mention, f"Team of {name}", [member], assignment=made, max_turns=2
                )
            if bare:
                bus = mention.bus
                await bus.conversations.assign(mention.task, floor.thread, [Job(member, "do it")])
            elif talks:
                await floor.hand_on([member])
            else:
                # Longer than the test: nothing but the end of the work wakes it.
                await floor.assign([Job(member, "do it")], timeout=timedelta(hours=1))
            return
        floor = Floor(mention)
        outcomes = await floor.outcomes()
        if outcomes or floor.is_concluding:
            said = [one.text for one in outcomes.values() if one is not None]
            raise GiveUpError(f"{name} has nothing: {said}")

    return agent


def broken(name: str) -> Agent:
    """Return an agent that can do nothing, and says so when it has the floor."""
    agent = Agent(name, limits=AgentLimits(max_attempts=1))

    @agent.on_mention
    async def work(mention: Mention) -> str:
        if isinstance(mention.event.data, AssignmentMade):
            raise GiveUpError("the tool is broken")
        return "I cannot."

    return agent


async def asked(user: Bus, agents: Sequence[Agent]) -> tuple[TaskId, str]:
    """Ask the first of some agents; return the super-task and why it failed."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(running(agent, user))
        names = [agent.name for agent in agents]
        opened = await user.tasks.open("Q", to=names[:1], participants=names[1:])
        task = opened.event.task
        with pytest.raises(TaskFailedError) as failed:
            await user.waits.for_answer(task, timeout=WAIT)
    return task, str(failed.value)


@pytest.mark.parametrize(("opens", "bare"), [(True, False), (True, True), (False, False)])
async def test_who_asked_is_told_where_the_lead_gives_up_when_it_is_woken(
    opens: bool, bare: bool
) -> None:
    """In a thread of its own, which is closed as failed, as in the main one."""
    lead = lead_of("lead", "web", opens=opens, bare=bare)
    async with user_in_memory() as user:
        task, why = await asked(user, [lead, broken("web")])
        ends = [e.data for e in await log_of(user, task) if isinstance(e.data, ThreadClosed)]

    assert "lead has nothing: ['the tool is broken']" in why
    assert [end.outcome.value for end in ends] == ["failed"] * opens


async def test_a_nested_team_that_fails_fails_its_assignment() -> None:
    """The pause above ends at once with the reason, and not at its deadline."""
    async with user_in_memory() as user:
        agents = [lead_of("lead", "middle"), lead_of("middle", "web"), broken("web")]
        task, why = await asked(user, agents)
        log = await log_of(user, task)

    assert "lead has nothing" in why
    assert "middle has nothing: ['the tool is broken']" in why
    assert sum(isinstance(event.data, TaskClosed) for event in log) == 1
    assert sum(isinstance(event.data, ThreadClosed) for event in log) == 2


async def test_a_lead_that_cannot_conclude_fails_the_task() -> None:
    """The turns are used up, and the one who has the last word gives up."""
    async with user_in_memory() as user:
        _, why = await asked(user, [lead_of("lead", "web", talks=True), broken("web")])

    assert "lead has nothing: []" in why
