"""Replying for an agent that no runner runs: what a runner would say, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.running_agents import kinds, log_of, user_in_memory
from threadbus.agents import decline, reply_to
from threadbus.bus import Bus, MentionFailedError, TaskFailedError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AssignmentMade,
    ErrorInfo,
    Recorded,
    TextPart,
    text_of,
)

WAIT = timedelta(seconds=20)
NO = ErrorInfo("declined", "not today")


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user and *web*, which nobody runs, are registered."""
    async with user_in_memory() as bus:
        await bus.registry.register(AgentCard(name="web"), holder="by hand")
        yield bus


async def mention(user: Bus) -> tuple[Bus, Recorded]:
    """Take the next mention of *web* from its inbox."""
    web = user.acting_as("web")
    async with asyncio.timeout(20), web.inbox() as inbox:
        delivery = await inbox.next()
        await delivery.ack()
        return web, delivery.recorded


async def test_a_question_is_answered_once(user: Bus) -> None:
    """The reply is the answer of the super-task; said again, the first one stands."""
    asking = asyncio.create_task(user.ask("Q", to=["web"], timeout=WAIT))
    web, asked = await mention(user)
    first = await reply_to(web, asked, "42")
    again = await reply_to(web, asked, "43")

    assert (await asking).text == "42"
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.event.id == first.event.id
    assert kinds(await log_of(user, asked.event.task)) == [
        "task.opened",
        "answer.submitted",
        "task.closed",
    ]


async def test_whoever_waits_for_a_reply_finds_it(user: Bus) -> None:
    """It has the id that a runner would give to it."""
    opened = await user.tasks.open("Q", to=[], participants=["web"])
    task = opened.event.task
    asking = asyncio.create_task(user.request(task, MAIN_THREAD, "hi", to="web", timeout=WAIT))
    web, asked = await mention(user)
    said = await reply_to(web, asked, [TextPart("hello")])

    answer = await asking
    assert answer.id == said.event.id
    assert text_of(answer.data.parts) == "hello"  # type: ignore[union-attr]


async def test_what_is_declined_ends_the_waiting(user: Bus) -> None:
    """An assignment fails, a message is given up, and a task that nobody else was asked ends."""
    opened = await user.tasks.open("Q", to=[], participants=["web"])
    task = opened.event.task
    asking = asyncio.create_task(user.request(task, MAIN_THREAD, "hi", to="web", timeout=WAIT))
    web, asked = await mention(user)
    await decline(web, asked, NO)
    with pytest.raises(MentionFailedError, match="not today"):
        await asking

    made = await user.append(
        AssignmentMade(assignee="web", parts=(TextPart("fly"),)), task=task, mentions=["web"]
    )
    _, assigned = await mention(user)
    await decline(web, assigned, NO)
    found = await user.waits.for_results(task, [made.event.id], timeout=WAIT)
    assert found[made.event.id].error == NO

    whole = asyncio.create_task(user.ask("Q", to=["web"], timeout=WAIT))
    _, question = await mention(user)
    await decline(web, question, NO)
    with pytest.raises(TaskFailedError, match="not today"):
        await whole
