"""How super-tasks end: answers, of which one wins, closing and cancelling."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, receive, soon, text, types_of
from threadbus.bus import (
    Bus,
    InvalidTransitionError,
    NotAParticipantError,
    TaskFailedError,
    TaskNotFoundError,
    ThreadClosedError,
    WaitTimeoutError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    EventId,
    TaskClosed,
    TaskStatus,
    TextPart,
    ThreadOutcome,
    derive_event_id,
    encode_event,
    make_event,
    new_event_id,
    new_task_id,
)


async def answer_next(agent: Bus, content: str) -> None:
    """Answer the next question that an agent is asked."""
    async with agent.inbox() as inbox:
        (delivery,) = await receive(inbox, 1, ack=False)
        await agent.tasks.submit_answer(delivery.event.task, content, cause=delivery.event.id)
        await delivery.ack()


async def test_a_question_is_asked_and_answered(env: BusEnv) -> None:
    """Asking waits for the agent's answer and returns it; the log has question, answer, close."""
    async with env.buses("user", "web") as (user, web):
        answering = asyncio.create_task(answer_next(web, "42"))
        answer = await soon(user.ask("What is 6 * 7?", to=["web"], title="Sum"))
        await answering
        opening, submitted, closing = await events_of(user, answer.task)
        state = await user.tasks.state(answer.task)

    assert answer.text == "42"
    assert answer.parts == (TextPart("42"),)
    assert answer.event == submitted == state.answer
    assert submitted.cause == opening.id
    assert closing.data == TaskClosed(outcome=TaskStatus.COMPLETED, answer=submitted.id)
    assert closing.cause == submitted.id
    assert state.status is TaskStatus.COMPLETED
    assert state.closed_at == closing.at
    assert not state.is_open


async def test_of_racing_answers_exactly_one_wins(env: BusEnv) -> None:
    """Of several answers at once one closes the task, every other one is told that it ended."""
    agents = [f"agent-{number}" for number in range(8)]
    async with env.buses("user", *agents) as (user, *buses):
        task = await opened(user, *agents)
        outcomes = await soon(
            asyncio.gather(
                *(bus.tasks.submit_answer(task, bus.name) for bus in buses),
                return_exceptions=True,
            )
        )
        won = [one for one in outcomes if not isinstance(one, BaseException)]
        answer = await user.waits.for_answer(task)
        types = await types_of(user, task)

    assert len(won) == 1
    assert answer.event == won[0].event
    assert [type(one) for one in outcomes].count(ThreadClosedError) == 7
    assert types.count("task.closed") == 1
    assert types[-1] == "task.closed"


async def test_the_same_answer_again_is_the_same_answer(env: BusEnv) -> None:
    """Submitting one answer id again returns what stands and changes nothing."""
    async with env.buses("user", "web") as (user, web), env.connect("web") as again:
        appended = await user.tasks.open("What?", to=["web"])
        task, cause = appended.event.task, appended.event.id
        answer_id = derive_event_id(cause, web.name, 0)
        first = await web.tasks.submit_answer(task, "It is.", event_id=answer_id)
        second = await web.tasks.submit_answer(task, "It is not.", event_id=answer_id)
        third = await again.tasks.submit_answer(task, "Maybe.", event_id=answer_id)

        assert first.event == second.event == third.event
        assert [first.duplicate, second.duplicate, third.duplicate] == [False, True, True]
        assert await types_of(user, task) == ["task.opened", "answer.submitted", "task.closed"]


async def test_an_answer_that_did_not_close_is_submitted_again(env: BusEnv) -> None:
    """An agent that died between its answer and the close finishes with the same ids."""
    async with env.buses("user", "web") as (user, web), env.connect("web") as again:
        task = await opened(user, "web")
        answer_id = new_event_id()
        data = AnswerSubmitted(parts=(TextPart("It is."),))
        await web.append(data, task=task, event_id=answer_id)
        await again.tasks.submit_answer(task, "It is.", event_id=answer_id)
        answer = await soon(user.waits.for_answer(task))

        assert answer.text == "It is."
        assert await types_of(user, task) == ["task.opened", "answer.submitted", "task.closed"]


async def test_an_answer_after_the_end_is_refused(env: BusEnv) -> None:
    """A task that was cancelled takes no answer; the refusal says how it ended and why."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await user.tasks.cancel(task, "I know it now.")
        with pytest.raises(ThreadClosedError) as refusal:
            await web.tasks.submit_answer(task, "It is.")

        assert refusal.value.outcome == "cancelled"
        assert refusal.value.summary == "I know it now."
        assert await types_of(user, task) == ["task.opened", "task.closed"]


async def test_waiting_for_a_task_without_an_answer_fails(env: BusEnv) -> None:
    """Whoever waits for a task that is cancelled or fails is told the outcome and the reason."""
    async with env.buses("user", "web") as (user, web):
        cancelled, failed = await opened(user, "web"), await opened(user, "web")
        await user.tasks.cancel(cancelled, "no longer needed")
        await web.tasks.close(failed, TaskStatus.FAILED, summary="cannot be known")
        with pytest.raises(TaskFailedError) as of_cancelled:
            await soon(user.waits.for_answer(cancelled))
        with pytest.raises(TaskFailedError) as of_failed:
            await soon(user.waits.for_answer(failed))

    assert (of_cancelled.value.outcome, of_cancelled.value.reason) == (
        "cancelled",
        "no longer needed",
    )
    assert (of_failed.value.outcome, of_failed.value.reason) == ("failed", "cannot be known")


async def test_the_first_close_stands(env: BusEnv) -> None:
    """A second close is refused with the outcome and the summary of the first."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.tasks.close(task, TaskStatus.COMPLETED, summary="first")
        with pytest.raises(ThreadClosedError) as refusal:
            await user.tasks.close(task, TaskStatus.FAILED, summary="second")
        state = await user.tasks.state(task)

    assert (refusal.value.outcome, refusal.value.summary) == ("completed", "first")
    assert (state.status, state.summary) == (TaskStatus.COMPLETED, "first")


async def test_a_repeated_close_with_one_id_is_the_same_close(env: BusEnv) -> None:
    """Closing again with one event id is a duplicate, no error."""
    event_id = new_event_id()
    async with env.buses("user", "web") as (user, _), env.connect("user") as again:
        task = await opened(user, "web")
        first = await user.tasks.close(task, TaskStatus.COMPLETED, event_id=event_id)
        second = await user.tasks.close(task, TaskStatus.COMPLETED, event_id=event_id)
        third = await again.tasks.close(task, TaskStatus.COMPLETED, event_id=event_id)

    assert first.seq == second.seq == third.seq
    assert [first.duplicate, second.duplicate, third.duplicate] == [False, True, True]


async def test_a_close_ends_the_threads_of_the_task(env: BusEnv) -> None:
    """With a task every open thread of its closer is closed, with a matching outcome."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        for title in ("One", "Two"):
            await web.threads.open(task, title, participants=["user"])
        await user.tasks.cancel(task)
        threads = await web.threads.list(task)

    assert [thread.is_open for thread in threads] == [False, False, False]
    assert threads[1].outcome == threads[2].outcome == ThreadOutcome.CANCELLED


async def test_a_task_is_closed_with_a_final_status_only(env: BusEnv) -> None:
    """Closing with a status that is no end, or setting one that is, is refused."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        with pytest.raises(InvalidTransitionError):
            await user.tasks.close(task, TaskStatus.WORKING)
        with pytest.raises(InvalidTransitionError):
            await user.tasks.set_status(task, TaskStatus.COMPLETED)
        await web.tasks.set_status(task, TaskStatus.PAUSED, "waiting for a file")
        state = await user.tasks.state(task)

    assert (state.status, state.note) == (TaskStatus.PAUSED, "waiting for a file")
    assert state.is_open


async def test_an_outsider_cannot_end_a_task(env: BusEnv) -> None:
    """Whoever is not in the main thread cannot close, cancel or answer."""
    async with env.buses("user", "web", "coder") as (user, _, coder):
        task = await opened(user, "web")
        with pytest.raises(NotAParticipantError):
            await coder.tasks.close(task, TaskStatus.FAILED)
        with pytest.raises(NotAParticipantError):
            await coder.tasks.cancel(task)
        with pytest.raises(NotAParticipantError):
            await coder.tasks.submit_answer(task, "It is.")

        assert await types_of(user, task) == ["task.opened"]


async def test_a_forged_close_wakes_nobody(env: BusEnv) -> None:
    """A waiter passes over the answer and the close of somebody outside the thread."""
    stranger = AgentName("stranger")
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        answer = make_event(
            AnswerSubmitted(parts=(TextPart("Trust me."),)),
            task=task,
            thread=MAIN_THREAD,
            sender=stranger,
        )
        close = make_event(
            TaskClosed(outcome=TaskStatus.COMPLETED, answer=answer.id),
            task=task,
            thread=MAIN_THREAD,
            sender=stranger,
        )
        waiting = asyncio.create_task(user.waits.for_answer(task))
        for event in (answer, close):
            sent = await backend.log.append(
                event.subject,
                encode_event(event),
                msg_id=event.id,
                guard=None,
                headers={},
                timeout=timedelta(seconds=10),
            )
            await sent
        await web.tasks.submit_answer(task, "It is.")
        found = await soon(waiting)
        state = await web.tasks.state(task)

    assert found.text == "It is."
    assert list(state.answers) == [found.event.id]


async def test_a_close_with_an_unknown_answer_is_no_answer(env: BusEnv) -> None:
    """A task that was closed with an answer that is nowhere has failed for whoever waits."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.tasks.close(task, TaskStatus.COMPLETED, answer=EventId("0" * 31 + "1"))
        with pytest.raises(TaskFailedError):
            await soon(user.waits.for_answer(task))


async def test_a_wait_ends_at_its_deadline_and_can_be_repeated(env: BusEnv) -> None:
    """No answer in time is an error that says so; waiting again gets what comes later."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        with pytest.raises(WaitTimeoutError) as late:
            await user.waits.for_answer(task, timeout=timedelta(milliseconds=1))
        await web.tasks.submit_answer(task, "It is.")
        answer = await soon(user.waits.for_answer(task))

    assert late.value.seconds == 0.001
    assert answer.text == "It is."


async def test_an_answer_before_the_wait_is_found(env: BusEnv) -> None:
    """Whoever begins to wait after the end gets the answer from the log, in any process."""
    async with env.buses("user", "web") as (user, web), env.connect("user") as later:
        task = await opened(user, "web")
        await web.tasks.submit_answer(task, "It is.")
        answers = [await soon(bus.waits.for_answer(task)) for bus in (user, web, later)]

    assert {answer.text for answer in answers} == {"It is."}


async def test_waiting_for_an_unknown_task_is_an_error(env: BusEnv) -> None:
    """A task that was never opened is not waited for."""
    task = new_task_id()
    async with env.buses("user") as (user,):
        with pytest.raises(TaskNotFoundError):
            await soon(user.waits.for_answer(task))
        with pytest.raises(TaskNotFoundError):
            await soon(user.waits.for_close(task))
        with pytest.raises(TaskNotFoundError):
            await soon(user.waits.for_results(task, [new_event_id()]))
        with pytest.raises(TaskNotFoundError):
            await soon(user.waits.for_votes(task, new_event_id()))


async def test_an_answer_keeps_its_sources_and_its_dissent(env: BusEnv) -> None:
    """What the answer rests on, and who disagreed, is recorded with it."""
    async with env.buses("user", "web") as (user, web):
        appended = await user.tasks.open("What?", to=["web"])
        await web.tasks.submit_answer(
            appended.event.task,
            "It is.",
            sources=[appended.event.id],
            dissent=["The critic doubts it."],
            mentions=["user"],
            summary="found",
        )
        answer = await soon(user.waits.for_answer(appended.event.task))
        async with user.inbox() as inbox:
            (woken,) = await receive(inbox, 1)

    assert answer.event.data == AnswerSubmitted(
        parts=(TextPart("It is."),),
        sources=(appended.event.id,),
        dissent=("The critic doubts it.",),
    )
    assert woken.event == answer.event
    assert text(woken.event) == "It is."
