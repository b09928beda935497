"""What a handler returns becomes an answer, a result or a message, or an error that says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import pytest

from tests.support.eventually import eventually
from tests.support.running_agents import (
    agent_of,
    find,
    log_of,
    quiet_task,
    running,
    text,
    user_in_memory,
)
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Bus, TaskFailedError
from threadbus.schemas import (
    MAIN_THREAD as MAIN,
)
from threadbus.schemas import (
    AgentCard,
    AnswerSubmitted,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    FilePart,
    HandlingEnded,
    HandlingStarted,
    MessagePosted,
    ProposalMade,
    TaskId,
    TaskStatus,
    TextPart,
    VoteCast,
    VoteVerdict,
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


async def test_a_reply_to_the_question_is_the_answer_and_closes_the_task(user: Bus) -> None:
    """A string returned for a super-task's question is its answer."""
    async with running(agent_of("42"), user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)
        await find(user, answer.task, HandlingEnded)

    assert answer.text == "42"
    assert (await user.tasks.state(answer.task)).status is TaskStatus.COMPLETED


async def test_an_opener_that_does_not_wait_is_mentioned_by_the_answer(user: Bus) -> None:
    """Where nobody follows the log, the answer wakes who asked."""
    async with running(agent_of("42"), user):
        opened = await user.tasks.open("Q", to=["web"], awaited=False)
        (answer,) = await find(user, opened.event.task, AnswerSubmitted)

    assert answer.mentions == ("user",)


@pytest.mark.parametrize("mode", list(AssignmentMode))
async def test_a_reply_to_an_assignment_finishes_it(user: Bus, mode: AssignmentMode) -> None:
    """The result names the assignment; it mentions who made it unless they wait for it."""
    async with running(agent_of("done"), user):
        task = await quiet_task(user)
        made = await user.append(
            AssignmentMade(assignee="web", parts=(TextPart("do"),), mode=mode),
            task=task,
            mentions=["web"],
        )
        (result,) = await find(user, task, AssignmentFinished)

    assert cast("AssignmentFinished", result.data).assignment == made.event.id
    assert result.mentions == (() if mode is AssignmentMode.SYNC else ("user",))


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_reply_to_a_message_is_a_message(user: Bus, awaited: bool) -> None:
    """It answers the message, and mentions its sender unless they wait for it."""
    async with running(agent_of("hello"), user):
        task = await quiet_task(user)
        sent = await user.send(task, MAIN, "hi", mentions=["web"], awaited=awaited)
        (reply,) = await find(user, task, MessagePosted, sender="web")

    assert (text(reply), reply.cause) == ("hello", sent.event.id)
    assert reply.mentions == (() if awaited else ("user",))


async def test_a_reply_to_given_input_is_the_answer(user: Bus) -> None:
    """An agent that asked without waiting answers the task when it gets the input."""
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str | None:
        if mention.event.type == "task.opened":
            await mention.bus.tasks.request_input(mention.task, "Which?", awaited=False)
            return None
        return f"so it is {mention.text}"

    async with running(agent, user):
        task = (await user.tasks.open("Q", to=["web"])).event.task
        await eventually(lambda: asked(user, task), "the request for input")
        await user.tasks.give_input(task, "red")
        answer = await user.waits.for_answer(task, timeout=WAIT)

    assert answer.text == "so it is red"


async def test_a_vote_is_appended_as_it_is(user: Bus) -> None:
    """The data of an event that a handler returns is appended as that event."""
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> VoteCast:
        return VoteCast(proposal=mention.event.id, verdict=VoteVerdict.APPROVE)

    async with running(agent, user):
        task = await quiet_task(user)
        made = await user.append(
            ProposalMade(parts=(TextPart("this?"),), voters=("web",)), task=task, mentions=["web"]
        )
        votes = await user.waits.for_votes(task, made.event.id, timeout=WAIT)

    assert votes.reached


async def test_a_submitted_answer_as_data_closes_the_task(user: Bus) -> None:
    """The data of an answer does what a string does, with what it rests on."""
    agent = agent_of(AnswerSubmitted(parts=(TextPart("42"),), dissent=("coder",)))
    async with running(agent, user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)

    assert cast("AnswerSubmitted", answer.event.data).dissent == ("coder",)


async def test_a_large_reply_goes_to_the_object_store(user: Bus) -> None:
    """Two megabytes of text are an answer like any other."""
    async with running(agent_of("x" * 2_000_000), user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)

    assert isinstance(await user.artifacts.load(answer.parts[0]), TextPart)
    assert text(answer.event) == f"[text {answer.parts[0].sha256[:12]}, text/plain, 2000000 bytes]"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "reply", [42, {"a": 1}, b"bytes", {"set"}, ["text"], (TextPart("a"), None), object(), True]
)
async def test_what_is_no_reply_is_told_and_not_tried_again(user: Bus, reply: object) -> None:
    """A handler that returns another type fails at once, and the asker is told what it may be."""
    said = await failure_of(user, agent_of(reply, LIMITS))
    assert "BadReplyError" in said
    assert "it may return a string" in said


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("a\x00b", "InvalidTextError"),
        ("\ud800", "InvalidTextError"),
        ([TextPart("x")] * 100, "LimitExceededError"),
        (FilePart(cast("bytes", 42)), "Error"),
    ],
)
async def test_a_reply_that_cannot_be_recorded_fails_the_task(
    user: Bus, reply: object, error: str
) -> None:
    """Text that cannot travel and too many parts end in an error that says so."""
    assert error in await failure_of(user, agent_of(reply))


async def test_two_agents_that_always_reply_fall_silent(user: Bus) -> None:
    """A reply to an answer wakes nobody, so that no two agents wake each other for ever."""
    first, second = Agent("first"), Agent("second")

    @first.on_mention
    async def start(mention: Mention) -> str:
        if mention.sender == "user":
            await mention.say("what do you say?", mentions=["second"])
        return "I say A"

    @second.on_mention
    async def reply(mention: Mention) -> str:
        return "I say B"

    async with running(first, user), running(second, user):
        opened = await user.tasks.open("talk", to=["user"], participants=["first", "second"])
        task = opened.event.task
        await user.send(task, MAIN, "go", mentions=["first"])
        await find(user, task, HandlingEnded, sender="first", count=2)
        log = await log_of(user, task)

    said = [event for event in log if event.sender == "first" and event.type == "message.posted"]
    assert [event.mentions for event in said] == [("second",), ("user",), ()]


async def test_a_reply_to_who_has_left_is_posted_without_a_mention(user: Bus) -> None:
    """The asker was removed while the agent worked: the others still read the answer."""
    release = asyncio.Event()
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        await release.wait()
        return "done"

    async with running(agent, user):
        coder = user.acting_as("coder")
        await coder.registry.register(AgentCard(name="coder"), holder="test")
        task = (await user.tasks.open("Q", to=["user"], participants=["web", "coder"])).event.task
        sent = await coder.send(task, MAIN, "hi", mentions=["web"])
        await find(user, task, HandlingStarted)
        await user.threads.remove(task, MAIN, "coder")
        release.set()
        (reply,) = await find(user, task, MessagePosted, cause=sent.event.id)

    assert reply.mentions == ()


async def asked(user: Bus, task: TaskId) -> bool:
    """Whether an input is asked for."""
    return bool((await user.tasks.state(task)).requests)
