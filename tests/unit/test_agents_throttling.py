"""Mentions that are not answered: too many of one sender, and two agents in a circle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from tests.support.running_agents import agent_of, find, log_of, quiet_task, running, user_in_memory
from threadbus.agents import Agent, Mention
from threadbus.agents.throttling import Exchange
from threadbus.bus import Bus, MentionFailedError, TaskFailedError
from threadbus.schemas import (
    MAIN_THREAD as MAIN,
)
from threadbus.schemas import (
    AgentCard,
    AgentName,
    AgentThrottled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ErrorInfo,
    EventData,
    HandlingEnded,
    MentionDeadLettered,
    MessagePosted,
    TextPart,
    ThrottleAction,
    make_event,
    new_event_id,
    new_task_id,
)

WAIT = timedelta(seconds=30)
PING, PONG, THIRD = AgentName("ping"), AgentName("pong"), AgentName("third")


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with user_in_memory() as bus:
        yield bus


def talker(name: str, other: str) -> Agent:
    """Return an agent that says something to *other* each time that it is woken."""
    agent = Agent(name)

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        await mention.say(f"Your turn, {other}.", mentions=[other])

    return agent


async def test_two_agents_that_wake_each_other_come_to_an_end(user: Bus) -> None:
    """The circle is cut with a record, the super-task fails with the reason, both go on working."""
    await user.limits.set("*", exchange=12, reason="They are new.")
    ping, pong = talker("ping", "pong"), talker("pong", "ping")
    task = new_task_id()
    async with running(ping, user), running(pong, user):
        with pytest.raises(TaskFailedError, match="messages and nothing else has come of it"):
            await user.ask("Q", to=["ping"], participants=["pong"], task=task, timeout=WAIT)
        events = await log_of(user, task)
        record = next(one for one in events if isinstance(one.data, AgentThrottled))
        said = [event for event in events if isinstance(event.data, MessagePosted)]

        assert isinstance(record.data, AgentThrottled)
        assert (record.data.limit, record.data.allowed) == ("exchange", 12)
        assert record.data.action is ThrottleAction.UNANSWERED
        assert (record.data.set_by, record.data.reason) == ("user", "They are new.")
        assert {record.sender, record.data.agent} == {"ping", "pong"}
        assert record.mentions == (record.data.agent,)
        assert record.data.seen > 12
        assert len(said) <= 12 + 4
        other = (await user.tasks.open("Q", to=["user"], participants=["ping", "pong"])).event.task
        asked = await user.send(other, MAIN, "Still there?", mentions=["pong"])
        await find(user, other, HandlingEnded, cause=asked.event.id, sender="pong")


async def test_who_mentions_too_often_is_not_answered(user: Bus) -> None:
    """The first too many within a minute tells the sender; each gets a dead letter."""
    await user.limits.set("noisy", mentions_per_minute=3)
    async with running(agent_of("Done."), user):
        task = await quiet_task(user)
        for name in ("noisy", "calm"):
            await user.registry.register(AgentCard(name=name), holder="test")
            await user.threads.add(task, MAIN, name)
        noisy = user.acting_as("noisy")
        asked = [
            await noisy.send(task, MAIN, "Hey!", mentions=["web"], awaited=True) for _ in range(9)
        ]
        dead = await find(user, task, MentionDeadLettered, sender="web", count=6)
        job = AssignmentMade(assignee="web", parts=(TextPart("Work!"),), mode=AssignmentMode.ASYNC)
        work = await noisy.append(job, task=task, mentions=["web"])
        (failed,) = await find(user, task, AssignmentFailed, cause=work.event.id)
        with pytest.raises(MentionFailedError, match="bus limits set noisy"):
            await noisy.request(task, MAIN, "Hey?", to="web", timeout=WAIT)
        calm = user.acting_as("calm")
        reply = await calm.request(task, MAIN, "How is it?", to="web", timeout=WAIT)

        (record,) = await find(user, task, AgentThrottled)
        ended = await find(user, task, HandlingEnded, sender="web", count=4)
    assert {event.cause for event in dead} >= {one.event.id for one in asked[3:]}
    assert [event.cause for event in ended[:3]] == [one.event.id for one in asked[:3]]
    assert len(ended) == 4
    assert isinstance(record.data, AgentThrottled)
    assert (record.data.agent, record.data.limit) == ("noisy", "mentions_per_minute")
    assert (record.data.allowed, record.data.seen, record.data.set_by) == (3, 4, "user")
    assert (record.cause, record.mentions) == (asked[3].event.id, ("noisy",))
    # One mention of the sender for all of its own, and what work was given is told of as ever.
    assert [event.mentions for event in dead[:6]] == [("noisy",), (), (), (), (), ()]
    assert failed.mentions == ("noisy",)
    assert reply.sender == "web"


def line(
    sender: AgentName, data: EventData | None = None, *mentions: AgentName
) -> tuple[AgentName, EventData, Sequence[AgentName]]:
    """Return who says what to whom; a message where nothing is given."""
    return sender, data or MessagePosted(parts=(TextPart("So."),)), mentions


ROUND = [line(PING, None, PONG), line(PONG, None, PING)]
WORK = AssignmentMade(assignee="pong", parts=(TextPart("Do."),))
DONE = AssignmentFinished(assignment=new_event_id(), parts=(TextPart("Done."),))


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ([], 0),
        (ROUND * 5, 10),
        ([line(PING, None, PONG)] * 9, 0),
        ([*ROUND, *ROUND, line(PING, None, PONG)], 4),
        ([*ROUND, line(PING, WORK, PONG), *ROUND], 2),
        ([*ROUND, *ROUND, line(PONG, DONE)], 0),
        ([*ROUND, line(THIRD, None, PING), *ROUND, *ROUND], 4),
        ([*ROUND, line(THIRD, None), *ROUND], 4),
        ([*ROUND, line(THIRD, WORK, THIRD), *ROUND], 4),
        ([*ROUND, line(PING, MentionDeadLettered(error=ErrorInfo("E", "e")), PONG), *ROUND], 4),
        ([*ROUND, line(PING, None), *ROUND], 4),
    ],
)
def test_an_exchange_is_counted_back_to_what_came_of_it(
    lines: Sequence[tuple[AgentName, EventData, Sequence[AgentName]]], length: int
) -> None:
    """Both must wake each other; work, and the word of a third one to either, begin it anew."""
    task = new_task_id()
    events = [
        make_event(data, task=task, thread=MAIN, sender=sender, mentions=tuple(mentions))  # type: ignore[arg-type]
        for sender, data, mentions in lines
    ]

    for one, other in ((PING, PONG), (PONG, PING)):
        exchange = Exchange(one, other)
        for event in events:
            exchange.add(event)
        assert exchange.length == length
