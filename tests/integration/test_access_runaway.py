"""An agent that runs away: the server mutes it by a rule on record, and the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.access import Attacker, attackers, secured
from tests.support.bus_env import DEADLINE_S, events_of, soon
from tests.support.eventually import eventually
from tests.support.running_agents import agent_of, running
from threadbus.bus import Bus, Runaway, RunawayGuard, access, access_errors, record_runaway
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AgentThrottled,
    MentionDeadLettered,
    MessagePosted,
    TaskId,
    TextPart,
    ThrottleAction,
    encode_event,
    make_event,
)

BATCH = 50
_MALLORY = AgentName("mallory")


def raw(task: TaskId, number: int) -> tuple[str, bytes]:
    """Return a message of mallory that mentions web."""
    event = make_event(
        MessagePosted(parts=(TextPart(f"Look at this! {number}"),)),
        task=task,
        thread=MAIN_THREAD,
        sender=_MALLORY,
        mentions=(AgentName("web"),),
    )
    return event.subject, encode_event(event)


async def run_away(mallory: Attacker, task: TaskId, refused: asyncio.Event) -> int:
    """Publish as fast as the server reads, until it refuses; return how many were sent."""
    sent = 0
    while not refused.is_set():
        for _ in range(BATCH):
            sent += 1
            await mallory.client.publish(*raw(task, sent))
        await mallory.client.flush(int(DEADLINE_S))
    return sent


async def of_mallory(bus: Bus, task: TaskId) -> int:
    """Count what the log has of mallory."""
    return sum(event.sender == "mallory" for event in await events_of(bus, task))


async def test_a_runaway_is_muted_and_the_others_go_on(tmp_path: Path) -> None:
    """Thousands of events a second, each with a mention, by a client that keeps no limit."""
    muted = asyncio.Event()
    async with (
        secured(tmp_path, "web", "mallory") as team,
        team.bus("web") as web,
        team.bus("operator") as operator,
        attackers(team, "mallory") as (mallory,),
    ):
        task = await team.task("user", "web", "mallory")
        await operator.limits.set(
            "mallory", events_per_second=50, burst=200, mentions_per_minute=20, reason="New here."
        )

        async def mute(runaway: Runaway) -> None:
            await team.folder.mute(runaway.sender, by="operator", reason="It ran away.")
            await team.server.reload()
            await record_runaway(operator, runaway)
            muted.set()

        guard = RunawayGuard(operator, mute)
        refused = asyncio.Event()

        async def first_refusal() -> None:
            await mallory.said()
            refused.set()

        async with running(agent_of("Done."), web), asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(guard.run())
            await soon(guard.ready.wait())
            tasks.create_task(first_refusal())
            away = tasks.create_task(run_away(mallory, task, refused))
            answers = 0
            async with asyncio.timeout(2 * DEADLINE_S):
                while not refused.is_set():
                    answer = await operator.acting_as("user").ask("Q", to=["web"])
                    answers += answer.text == "Done."
            sent = await away
            # The server refuses before the guard has put it on record.
            await soon(muted.wait())
            watching.cancel()
            stored = await of_mallory(operator, task)
            await run_away_again(mallory, task)

            async def is_quiet() -> bool:
                events = await events_of(operator, task)
                dead = [one for one in events if isinstance(one.data, MentionDeadLettered)]
                mentions = sum(one.sender == "mallory" and bool(one.mentions) for one in events)
                return len(dead) == mentions - 20

            await eventually(is_quiet, "a dead letter for each mention but 20", DEADLINE_S)

        assert answers >= 1
        assert stored < sent
        assert await of_mallory(operator, task) == stored
        records = [
            event.data
            for event in await events_of(operator, task)
            if isinstance(event.data, AgentThrottled)
        ]
        (by_server,) = [one for one in records if one.action is ThrottleAction.MUTED]
        (by_web,) = [one for one in records if one.action is ThrottleAction.UNANSWERED]
        print(f"{sent:,} sent, {stored:,} stored, {answers} answers of web meanwhile: {by_server}")
        assert (by_server.agent, by_server.set_by, by_server.allowed) == ("mallory", "operator", 50)
        assert by_server.seen > 100
        assert (by_web.limit, by_web.allowed) == ("mentions_per_minute", 20)
        (identity,) = [one for one in team.folder.tenants()[0].identities if one.name == "mallory"]
        assert identity.muted is not None
        assert (identity.muted.by, identity.muted.reason) == ("operator", "It ran away.")
        await team.folder.unmute("mallory")
        await team.server.reload()
        assert b"seq" in await mallory.ask(*raw(task, 0))


async def run_away_again(mallory: Attacker, task: TaskId) -> None:
    """Publish some more, after the refusal."""
    for number in range(BATCH):
        await mallory.client.publish(*raw(task, number))
    await mallory.client.flush(int(DEADLINE_S))


async def test_an_operator_is_not_muted(tmp_path: Path) -> None:
    """It could undo that itself; the error names the way out."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    before = folder.config.read_bytes()
    with pytest.raises(access_errors.AccessFolderError, match="revoke it instead"):
        await folder.mute("operator", by="user")

    assert folder.config.read_bytes() == before
