"""Whatever a handler raises fails only its turn; on the bus in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import pytest

from tests.support.bus_env import MemoryEnv, write_raw
from tests.support.running_agents import (
    find,
    kinds,
    log_of,
    quiet_task,
    running,
    text,
    user_in_memory,
)
from threadbus.agents import Agent, AgentLimits, GiveUpError, Mention, NoModelError
from threadbus.agents.errors import ModelBudgetExceededError, ModelRefusedError
from threadbus.bus import Bus, MentionFailedError, TaskFailedError
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import (
    MAIN_THREAD as MAIN,
)
from threadbus.schemas import (
    AssignmentFailed,
    AssignmentMade,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    MessagePosted,
    TextPart,
    new_event_id,
)

WAIT = timedelta(seconds=20)
LIMITS = AgentLimits(max_attempts=3, first_retry=timedelta(0), turn_timeout=timedelta(seconds=60))
ONCE = AgentLimits(max_attempts=1)


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with user_in_memory() as bus:
        yield bus


async def failure_of(user: Bus, agent: Agent) -> str:
    """Ask *agent*, which fails; return what the task was closed with."""
    async with running(agent, user):
        with pytest.raises(TaskFailedError) as failed:
            await user.ask("Q", to=[agent.name], timeout=WAIT)
    return str(failed.value)


class Odd(BaseException):
    """Not an Exception."""


class UnspeakableError(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Odd("?"), "Odd"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("of its own"), "TimeoutError"),
        (ValueError("nul \x00 and \ud800"), "ValueError"),
        (UnspeakableError(), "UnspeakableError"),
    ],
)
async def test_whatever_a_handler_raises_fails_only_its_turn(
    user: Bus, error: BaseException, kind: str
) -> None:
    """The next mention of the same thread is handled; the agent goes on."""
    agent = Agent("web", limits=ONCE)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        if mention.text == "bad":
            raise error
        return "fine"

    async with running(agent, user):
        task = await quiet_task(user)
        bad = await user.send(task, MAIN, "bad", mentions=["web"])
        good = await user.send(task, MAIN, "good", mentions=["web"])
        (dead,) = await find(user, task, MentionDeadLettered, cause=bad.event.id)
        (reply,) = await find(user, task, MessagePosted, cause=good.event.id)

    data = cast("MentionDeadLettered", dead.data)
    assert kind in f"{data.error.kind} {data.error.message}"
    assert dead.mentions == ("user",)
    assert text(reply) == "fine"


async def test_a_failed_turn_is_tried_again_and_then_given_up(user: Bus) -> None:
    """Each attempt is on record; the last one ends in a dead letter and the task's failure."""
    seen: list[int] = []
    agent = Agent("web", limits=LIMITS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        seen.append(mention.attempt)
        raise ValueError("no")

    async with running(agent, user):
        task = (await user.tasks.open("Q", to=["web"])).event.task
        with pytest.raises(TaskFailedError, match="web gave up: ValueError: no"):
            await user.waits.for_answer(task, timeout=WAIT)
        failed = await find(user, task, HandlingFailed, count=3)

    assert seen == [1, 2, 3]
    pauses = [cast("HandlingFailed", event.data).retry_in_ns for event in failed]
    assert [pause is None for pause in pauses] == [False, False, True]


async def test_a_turn_that_fails_once_ends_well(user: Bus) -> None:
    """The second attempt's reply counts."""
    agent = Agent("web", limits=LIMITS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        if mention.attempt == 1:
            raise ValueError("not yet")
        return "now"

    async with running(agent, user):
        assert (await user.ask("Q", to=["web"], timeout=WAIT)).text == "now"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GiveUpError("the library is closed"), "the library is closed"),
        (NoModelError("web"), "runs without a model"),
        (ModelRefusedError("host", "gpt", 401, "bad key"), "refused the request"),
        (ModelBudgetExceededError(11, 10), "the token budget is used up: 11 of 10"),
    ],
)
async def test_what_would_fail_again_is_not_tried_again(
    user: Bus, error: Exception, words: str
) -> None:
    """It ends the mention at the first attempt and the task with it, in its own words."""
    seen: list[int] = []
    agent = Agent("web", limits=LIMITS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        seen.append(mention.attempt)
        raise error

    assert words in await failure_of(user, agent)
    assert seen == [1]


async def test_a_dead_assignment_fails_for_who_waits(user: Bus) -> None:
    """The assignment fails with the handler's error, and the task goes on."""
    agent = Agent("web", limits=ONCE)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        raise ValueError("no")

    async with running(agent, user):
        task = await quiet_task(user)
        made = await user.append(
            AssignmentMade(assignee="web", parts=(TextPart("do"),)), task=task, mentions=["web"]
        )
        results = await user.waits.for_results(task, [made.event.id], timeout=WAIT)
        (failed,) = await find(user, task, AssignmentFailed)

    assert not results[made.event.id].ok
    assert failed.cause == made.event.id
    assert (await user.tasks.state(task)).is_open


async def test_a_slow_turn_is_ended_and_told(user: Bus) -> None:
    """A handler that takes longer than it may is cancelled, and the asker told how long it had."""
    ended = asyncio.Event()
    agent = Agent("web", limits=AgentLimits(max_attempts=1, turn_timeout=timedelta(seconds=0.1)))

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    assert "took longer than 0.1 s" in await failure_of(user, agent)
    assert ended.is_set()


async def test_a_handler_that_ignores_its_cancellation_is_left_behind(user: Bus) -> None:
    """It can append nothing more, the asker is told, and the agent stops all the same."""
    go_on = asyncio.Event()
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    agent = Agent("web", limits=AgentLimits(max_attempts=1, turn_timeout=timedelta(seconds=0.1)))

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        try:
            await mention.say("too late")
        except BaseException as error:
            outcome.set_result(error)
        else:
            outcome.set_result(None)
        return "never"

    async with running(agent, user) as runner:
        with pytest.raises(TaskFailedError):
            await user.ask("Q", to=["web"], timeout=WAIT)
    assert len(runner.abandoned) == 1
    go_on.set()
    assert "the turn is over" in str(await outcome)


async def test_a_budget_ends_a_thread_where_the_agent_cannot_end_the_task(user: Bus) -> None:
    """An agent that is not in the main thread tells who asked it instead."""
    agent = Agent("web", limits=LIMITS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        raise ModelBudgetExceededError(11, 10)

    async with running(agent, user):
        task = (await user.tasks.open("Q", to=["user"])).event.task
        aside = (await user.threads.open(task, "aside", participants=["web"])).event.thread
        with pytest.raises(MentionFailedError, match="token budget"):
            await user.request(task, aside, "hi", to="web", timeout=WAIT)

    assert (await user.tasks.state(task)).is_open


async def test_an_unknown_type_is_given_up_with_a_reason() -> None:
    """A mention that this version cannot read is not passed over: its sender is told."""
    agent, ran = Agent("web"), list[str]()

    @agent.on_mention
    async def handle(mention: Mention) -> None:
        ran.append(mention.event.type)

    env = MemoryEnv()
    async with env.connect("user") as other, running(agent, other), env.backend() as raw:
        task = await quiet_task(other)
        said = {
            "v": 1,
            "id": new_event_id(),
            "type": "weather.asked",
            "task": task,
            "thread": "main",
            "sender": "user",
            "at": 1,
            "mentions": ["web"],
            "data": {"where": "Oslo"},
        }
        await write_raw(raw, f"bus.{task}.main.msg.user.web", json.dumps(said).encode())
        (dead,) = await find(other, task, MentionDeadLettered)

    assert "'weather.asked' are not known to agent web" in str(dead.data)
    assert (dead.mentions, ran) == (("user",), [])


async def test_a_reply_that_was_refused_is_tried_again_in_order() -> None:
    """The server had no room for a moment: the next message of the thread waits for its turn."""
    backend = InMemoryBackend()
    async with connect_in_memory("user", backend=backend) as other:
        agent = Agent("web", limits=AgentLimits(max_attempts=2, first_retry=timedelta(0)))

        @agent.on_mention
        async def handle(mention: Mention) -> str:
            return mention.text

        async with running(agent, other):
            task = await quiet_task(other)
            backend.fail_next(where="bus.*.*.msg.web.>")
            for word in ("one", "two"):
                await other.send(task, MAIN, word, mentions=["web"])
            await find(other, task, HandlingEnded, count=2)
            log = await log_of(other, task)

    replies = [text(event) for event in log if event.sender == "web" and text(event)]
    assert replies == ["one", "two"]
    assert kinds(log, "web").count("handling.failed") == 1
