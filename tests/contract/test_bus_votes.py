"""Votes on a proposal: whose count, until when, and when they are decided."""

import asyncio
import time
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, forge, opened, soon
from threadbus.bus import Bus, ThreadClosedError, VoteResult, WaitTimeoutError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventId,
    ProposalMade,
    TaskId,
    TaskStatus,
    TextPart,
    ThreadId,
    VoteCast,
    VoteVerdict,
    new_event_id,
)

AT_ONCE = timedelta(milliseconds=1)


async def propose(
    bus: Bus,
    task: TaskId,
    *voters: str,
    quorum: int | None = None,
    thread: ThreadId = MAIN_THREAD,
    deadline_at: int | None = None,
) -> EventId:
    """Put something to the vote."""
    data = ProposalMade(
        parts=(TextPart("Stop here?"),), voters=voters, quorum=quorum, deadline_at=deadline_at
    )
    return (await bus.append(data, task=task, thread=thread, mentions=voters)).event.id


async def vote(bus: Bus, task: TaskId, proposal: EventId, verdict: VoteVerdict) -> None:
    """Vote on a proposal."""
    await bus.append(VoteCast(proposal=proposal, verdict=verdict), task=task)


YES, NO = VoteVerdict.APPROVE, VoteVerdict.REJECT


async def test_a_vote_ends_when_everybody_has_voted(env: BusEnv) -> None:
    """All votes make the result; a voter's last vote counts, that of others does not."""
    async with (
        env.buses("user", "web", "coder", "critic") as (user, web, coder, critic),
        env.backend() as backend,
    ):
        task = await opened(user, participants=["web", "coder", "critic"])
        proposal = await propose(user, task, "web", "coder", quorum=2)
        waiting = asyncio.create_task(user.waits.for_votes(task, proposal))
        await vote(critic, task, proposal, NO)
        await vote(web, task, proposal, YES)
        await forge(backend, task, VoteCast(proposal=proposal, verdict=NO))
        await vote(coder, task, new_event_id(), NO)
        await vote(coder, task, proposal, YES)
        result = await soon(waiting)

    assert result == VoteResult(proposal, {AgentName("web"): YES, AgentName("coder"): YES}, (), 2)
    assert result.reached
    assert result.approvals == 2


@pytest.mark.parametrize(
    ("quorum", "verdicts", "reached", "missing"),
    [
        (2, [YES, YES], True, 1),
        (2, [NO, NO], False, 1),
        (1, [YES], True, 2),
        (None, [NO], False, 2),
        (None, [YES, YES, YES], True, 0),
        (4, [], False, 3),
    ],
)
async def test_a_vote_ends_once_it_is_decided(
    env: BusEnv, quorum: int | None, verdicts: list[VoteVerdict], reached: bool, missing: int
) -> None:
    """A wait for votes ends as soon as those that are missing could change nothing."""
    names = ["web", "coder", "critic"]
    async with env.buses("user", *names) as (user, *voters):
        task = await opened(user, participants=names)
        proposal = await propose(user, task, *names, quorum=quorum)
        for bus, verdict in zip(voters, verdicts, strict=False):
            await vote(bus, task, proposal, verdict)
        result = await soon(user.waits.for_votes(task, proposal))

    assert (result.reached, len(result.missing)) == (reached, missing)
    assert result.decided


async def test_a_vote_may_be_changed_until_it_is_decided(env: BusEnv) -> None:
    """Of two votes of one voter the later counts."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        task = await opened(user, participants=["web", "coder"])
        proposal = await propose(user, task, "web", "coder", quorum=1)
        await vote(web, task, proposal, NO)
        await vote(web, task, proposal, YES)
        result = await soon(user.waits.for_votes(task, proposal))

    assert result.votes == {"web": YES}
    assert result.missing == ("coder",)


async def test_a_vote_at_its_deadline_says_who_is_missing(env: BusEnv) -> None:
    """At a timeout, the wait's or the proposal's, the result has the votes so far."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        proposal = await propose(user, task, "web", "coder")
        await vote(web, task, proposal, YES)
        at_timeout = await user.waits.for_votes(task, proposal, timeout=timedelta(milliseconds=500))
        over = await propose(user, task, "web", "coder", deadline_at=time.time_ns())
        await vote(web, task, over, YES)
        await vote(coder, task, over, YES)
        too_late = await soon(user.waits.for_votes(task, over))
        with pytest.raises(WaitTimeoutError):
            await user.waits.for_votes(task, new_event_id(), timeout=AT_ONCE)

    assert (at_timeout.votes, at_timeout.missing) == ({"web": YES}, ("coder",))
    assert not at_timeout.decided
    assert (too_late.votes, too_late.missing) == ({}, ("web", "coder"))


async def test_a_wait_for_votes_ends_with_the_thread_and_the_task(env: BusEnv) -> None:
    """Nobody waits for votes on a proposal whose thread or task has ended."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await user.threads.open(task, "Vote", participants=["web"])).event.thread
        inside = await propose(user, task, "web", thread=thread)
        outside = await propose(user, task, "web")
        waiting = [
            asyncio.create_task(user.waits.for_votes(task, one)) for one in (inside, outside)
        ]
        await web.threads.close(task, thread)
        with pytest.raises(ThreadClosedError):
            await soon(waiting[0])
        await web.tasks.close(task, TaskStatus.COMPLETED)
        with pytest.raises(ThreadClosedError):
            await soon(waiting[1])
