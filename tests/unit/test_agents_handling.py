"""What a handler may do to its turn, and may not do to the agent; on the bus in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest

from tests.support.eventually import eventually
from tests.support.running_agents import find, kinds, log_of, running, text
from threadbus.agents import Agent, AgentLimits, GiveUpError, Mention
from threadbus.bus import Bus, BusSettings, MentionFailedError, TaskFailedError
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import (
    MAIN_THREAD as MAIN,
)
from threadbus.schemas import (
    AgentCard,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    FilePart,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    Lane,
    MentionDeadLettered,
    MentionReceived,
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
    settings = BusSettings(drain_timeout=timedelta(seconds=2))
    async with connect_in_memory("user", backend=InMemoryBackend(), settings=settings) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="test")
        yield bus


def agent_of(reply: object, limits: AgentLimits = ONCE) -> Agent:
    """Return an agent that always returns *reply*."""
    agent = Agent("web", limits=limits)

    @agent.on_mention
    async def handle(mention: Mention) -> Any:
        return reply

    return agent


async def failure_of(user: Bus, agent: Agent) -> str:
    """Ask *agent*, which fails; return what the task was closed with."""
    async with running(agent, user):
        with pytest.raises(TaskFailedError) as failed:
            await user.ask("Q", to=[agent.name], timeout=WAIT)
    return str(failed.value)


# what a reply becomes


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


# garbage


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


# raising


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


async def test_giving_up_is_not_tried_again(user: Bus) -> None:
    """GiveUpError ends the mention at the first attempt, in its own words."""
    seen: list[int] = []
    agent = Agent("web", limits=LIMITS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        seen.append(mention.attempt)
        raise GiveUpError("the library is closed")

    said = await failure_of(user, agent)
    assert "the library is closed" in said
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


# the end of the super-task


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


# being busy


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


# talking for ever, and to nobody


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


async def quiet_task(user: Bus) -> TaskId:
    """Open a super-task that asks nobody but the user; web takes part."""
    return (await user.tasks.open("Q", to=["user"], participants=["web"])).event.task


async def asked(user: Bus, task: TaskId) -> bool:
    """Whether an input is asked for."""
    return bool((await user.tasks.state(task)).requests)


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
