"""A handler ends with its super-task; a busy agent says so; on the bus in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import pytest

from tests.support.running_agents import (
    agent_of,
    find,
    kinds,
    log_of,
    quiet_task,
    ready,
    running,
    text,
    user_in_memory,
)
from threadbus.agents import Agent, AgentLimits, AgentRunner, Mention
from threadbus.bus import Bus, MentionFailedError, TaskFailedError
from threadbus.schemas import (
    MAIN_THREAD as MAIN,
)
from threadbus.schemas import (
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    Lane,
    MentionReceived,
    MessagePosted,
)

WAIT = timedelta(seconds=20)
LIMITS = AgentLimits(max_attempts=3, first_retry=timedelta(0), turn_timeout=timedelta(seconds=60))
ONCE = AgentLimits(max_attempts=1)


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with user_in_memory() as bus:
        yield bus


async def test_a_cancelled_task_stops_its_handlers(user: Bus) -> None:
    """The handler is cancelled at once and the failure is on record, without another attempt."""
    started, stopped = asyncio.Event(), asyncio.Event()
    agent = waiting_agent(started, stopped)
    async with running(agent, user):
        task = (await user.tasks.open("Q", to=["web"])).event.task
        await started.wait()
        await user.tasks.cancel(task, "changed my mind")
        async with asyncio.timeout(20):
            await stopped.wait()
        (failed,) = await find(user, task, HandlingFailed)

    data = cast("HandlingFailed", failed.data)
    assert data.error.kind == "TaskEndedError"
    assert data.retry_in_ns is None


async def test_an_agent_that_closes_the_task_itself_goes_on(user: Bus) -> None:
    """Submitting the answer inside the handler does not cancel what follows in it."""
    agent = Agent("web")
    after = asyncio.Event()

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        await find(mention.bus, mention.task, HandlingStarted)
        await mention.submit("42")
        for _ in range(50):
            await asyncio.sleep(0)
        after.set()

    async with running(agent, user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)
        await find(user, answer.task, HandlingEnded)
        log = await log_of(user, answer.task)

    assert after.is_set()
    assert "handling.failed" not in kinds(log)


async def test_a_task_ends_at_its_deadline(user: Bus) -> None:
    """The handler is stopped and the task is closed as failed, with the reason."""
    agent = waiting_agent(asyncio.Event(), asyncio.Event())
    async with running(agent, user):
        opened = await user.tasks.open("Q", to=["web"], deadline=timedelta(seconds=0.3))
        with pytest.raises(TaskFailedError, match="deadline of super-task"):
            await user.waits.for_answer(opened.event.task, timeout=WAIT)


async def test_a_task_whose_time_is_up_is_not_begun(user: Bus) -> None:
    """An agent that starts after the deadline does not run its handler."""
    agent = waiting_agent(asyncio.Event(), stopped := asyncio.Event())
    await user.registry.register(agent.card, holder="nobody")
    opened = await user.tasks.open("Q", to=["web"], deadline=timedelta(microseconds=1))
    async with running(agent, user):
        with pytest.raises(TaskFailedError, match="deadline"):
            await user.waits.for_answer(opened.event.task, timeout=WAIT)

    assert not stopped.is_set()


async def test_a_busy_agent_sends_a_receipt_and_answers_quick_questions(user: Bus) -> None:
    """Who asks a busy agent hears at once with what it is busy; a quick question is answered."""
    release = asyncio.Event()
    agent = Agent("web", limits=AgentLimits(concurrency=1))

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        await mention.progress("page 3 of 10")
        await release.wait()
        return "done"

    async with running(agent, user):
        first = await quiet_task(user)
        await user.send(first, MAIN, "read the report", mentions=["web"])
        await find(user, first, HandlingStarted)
        second = await quiet_task(user)
        sent = await user.send(second, MAIN, "and this", mentions=["web"])
        (receipt,) = await find(user, second, MentionReceived, cause=sent.event.id)
        quick = await user.request(
            second, MAIN, "how far?", to="web", lane=Lane.QUICK, timeout=WAIT
        )
        release.set()
        await find(user, second, MessagePosted, cause=sent.event.id)

    assert (
        cast("MentionReceived", receipt.data).busy_with == "'read the report' in main: page 3 of 10"
    )
    assert text(quick) == "'read the report' in main: page 3 of 10"


async def test_several_put_at_once_get_their_receipts(user: Bus) -> None:
    """Of five mentions in five threads at once, four wait behind an agent that takes one."""
    release = asyncio.Event()
    agent = Agent("web", limits=AgentLimits(concurrency=1))

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        await release.wait()
        return "done"

    await user.registry.register(agent.card, holder="nobody")
    tasks = [await quiet_task(user) for _ in range(5)]
    sent = [await user.send(task, MAIN, "go", mentions=["web"]) for task in tasks]
    async with running(agent, user):
        for one in sent[1:]:
            await find(user, one.event.task, MentionReceived)
        release.set()
        for one in sent:
            await find(user, one.event.task, HandlingEnded)

    assert "mention.received" not in kinds(await log_of(user, tasks[0]))


async def test_a_quick_question_that_fails_is_told(user: Bus) -> None:
    """Whoever waits for a quick answer hears that there is none."""
    agent = agent_of("fine")

    @agent.on_quick
    async def quick(mention: Mention) -> str:
        raise ValueError("no")

    async with running(agent, user):
        task = await quiet_task(user)
        with pytest.raises(MentionFailedError, match="no"):
            await user.request(task, MAIN, "?", to="web", lane=Lane.QUICK, timeout=WAIT)


async def test_a_flood_of_quick_questions_is_answered(user: Bus) -> None:
    """A hundred at once are all answered by the quick handler, and only a few run side by side."""
    at_once = most = 0
    agent = agent_of("slow")

    @agent.on_quick
    async def quick(mention: Mention) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return "quick"

    async with running(agent, user):
        task = await quiet_task(user)
        for _ in range(100):
            await user.send(task, MAIN, "?", mentions=["web"], lane=Lane.QUICK, awaited=True)
        replies = await find(user, task, MessagePosted, sender="web", count=100)

    assert {text(reply) for reply in replies} == {"quick"}
    assert most <= 16


async def test_a_failing_thread_does_not_hold_up_the_others(user: Bus) -> None:
    """While a mention waits for its next attempt, an agent that takes one thread takes another."""
    agent = Agent(
        "web",
        limits=AgentLimits(
            concurrency=1, first_retry=timedelta(hours=1), longest_retry=timedelta(hours=1)
        ),
    )

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        if mention.text == "poison":
            raise ValueError("no")
        return "fine"

    async with running(agent, user):
        poisoned = await quiet_task(user)
        await user.send(poisoned, MAIN, "poison", mentions=["web"])
        await find(user, poisoned, HandlingFailed)
        task = await quiet_task(user)
        reply = await user.request(task, MAIN, "hello", to="web", timeout=WAIT)

    assert text(reply) == "fine"


async def test_a_silent_handler_does_not_keep_the_asker_waiting(user: Bus) -> None:
    """Whoever waits for a reply is told that the agent handled the message without one."""
    async with running(agent_of(None), user):
        task = await quiet_task(user)
        with pytest.raises(MentionFailedError, match="silently"):
            await user.request(task, MAIN, "hi", to="web", timeout=WAIT)


async def test_a_word_on_the_way_is_not_the_reply(user: Bus) -> None:
    """What a handler says to others before it returns does not end the wait of who asked."""
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        await mention.say("one moment")
        await mention.say("look at this", mentions=["user"])
        return "the reply"

    async with running(agent, user):
        task = await quiet_task(user)
        reply = await user.request(task, MAIN, "hi", to="web", timeout=WAIT)

    assert text(reply) == "the reply"


async def test_what_a_handler_says_counts_where_it_returns_nothing(user: Bus) -> None:
    """A handler may answer by saying it: the last word that wakes nobody is the reply."""
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        await mention.say("one moment")
        await mention.say("the answer")

    async with running(agent, user):
        task = await quiet_task(user)
        reply = await user.request(task, MAIN, "hi", to="web", timeout=WAIT)

    assert text(reply) == "the answer"


def waiting_agent(started: asyncio.Event, stopped: asyncio.Event) -> Agent:
    """Return an agent whose handler waits until it is cancelled."""
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    return agent


async def test_a_handler_that_has_just_begun_is_ended_with_its_agent(user: Bus) -> None:
    """No handler outlives the agent, and the next agent handles the mention again."""
    started, stopped = asyncio.Event(), asyncio.Event()
    agent = waiting_agent(started, stopped)
    runner = AgentRunner(agent, user.acting_as(agent.name))
    work = asyncio.create_task(runner.run())
    await ready(runner, work)
    task = (await user.tasks.open("Q", to=["web"])).event.task
    async with asyncio.timeout(20):
        await started.wait()
        work.cancel()
        await asyncio.wait({work})

    assert stopped.is_set()
    assert runner.abandoned == frozenset()
    (failed,) = await find(user, task, HandlingFailed)
    assert cast("HandlingFailed", failed.data).error.kind == "Aborted"

    again = Agent("web")

    @again.on_mention
    async def handle(mention: Mention) -> str:
        return f"attempt {mention.attempt}"

    async with running(again, user):
        answer = await user.waits.for_answer(task, timeout=WAIT)
    assert answer.text == "attempt 2"


async def test_a_handler_that_cancels_itself_has_failed(user: Bus) -> None:
    """In its first moments and later: the attempt is on record, and the agent goes on."""
    agent = Agent("web", limits=ONCE)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        if "late" in mention.text:
            await find(mention.bus, mention.task, HandlingStarted)
        own = asyncio.current_task()
        if own is not None and "cancel" in mention.text:
            own.cancel()
            await asyncio.Event().wait()
        return "fine"

    async with running(agent, user):
        for question in ("cancel", "late cancel"):
            with pytest.raises((TaskFailedError, MentionFailedError), match="CancelledError"):
                await user.ask(question, to=["web"], timeout=WAIT)
        answer = await user.ask("Q", to=["web"], timeout=WAIT)

    assert answer.text == "fine"
