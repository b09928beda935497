"""Input that only the opener of a task has: asked for, given once, waited for."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, receive, soon, text, types_of
from threadbus.bus import (
    InvalidTransitionError,
    NotAParticipantError,
    ThreadClosedError,
    WaitTimeoutError,
)
from threadbus.schemas import TaskStatus, new_event_id


async def test_input_is_asked_for_and_given(env: BusEnv) -> None:
    """A request makes the task wait for input, the answer lets it work again."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        asked = await web.tasks.request_input(task, "Which year?")
        waiting = await user.tasks.state(task)
        given = await user.tasks.give_input(task, "2024")
        working = await web.tasks.state(task)
        seen = await soon(web.waits.for_input(task, asked.event.id))

    assert waiting.status is TaskStatus.INPUT_REQUIRED
    assert [request.event for request in waiting.requests.values()] == [asked.event]
    assert working.status is TaskStatus.WORKING
    assert working.requests == {}
    assert seen == given.event
    assert seen.cause == asked.event.id
    assert text(seen) == "2024"


async def test_input_wakes_an_agent_that_does_not_follow(env: BusEnv) -> None:
    """The answer mentions an agent that asked without waiting, and only such a one."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        follows = await web.tasks.request_input(task, "Which year?")
        sleeps = await coder.tasks.request_input(task, "Which file?", awaited=False)
        to_web = await user.tasks.give_input(task, "2024", request=follows.event.id)
        to_coder = await user.tasks.give_input(task, "a.csv", request=sleeps.event.id)
        async with coder.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

    assert to_web.event.mentions == ()
    assert delivery.event == to_coder.event


async def test_several_requests_need_to_be_named(env: BusEnv) -> None:
    """With two open requests an answer says which it answers; the other stays open."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        first = await web.tasks.request_input(task, "Which year?")
        second = await web.tasks.request_input(task, "Which month?")
        with pytest.raises(InvalidTransitionError) as refusal:
            await user.tasks.give_input(task, "2024")
        await user.tasks.give_input(task, "2024", request=first.event.id)
        state = await user.tasks.state(task)
        await user.tasks.give_input(task, "May")
        done = await user.tasks.state(task)

    assert set(refusal.value.allowed) == {first.event.id, second.event.id}
    assert list(state.requests) == [second.event.id]
    assert state.status is TaskStatus.INPUT_REQUIRED
    assert done.status is TaskStatus.WORKING


async def test_input_for_what_has_ended_is_refused(env: BusEnv) -> None:
    """The refusal says how it ended, and that only a new super-task helps."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        asked = await web.tasks.request_input(task, "Which year?")
        await user.tasks.close(task, TaskStatus.CANCELLED, summary="never mind")
        refusals: list[str] = []
        for request in (None, asked.event.id):
            with pytest.raises(ThreadClosedError) as refusal:
                await user.tasks.give_input(task, "2024", request=request)
            refusals.append(str(refusal.value))

    for said in refusals:
        assert "(cancelled): never mind; open a new super-task" in said


async def test_input_that_nobody_asked_for_is_refused(env: BusEnv) -> None:
    """There is nothing to answer without a request, nor to one that was never made."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        with pytest.raises(InvalidTransitionError):
            await user.tasks.give_input(task, "2024")
        with pytest.raises(InvalidTransitionError):
            await user.tasks.give_input(task, "2024", request=new_event_id())

        assert await types_of(user, task) == ["task.opened"]


async def test_of_two_answers_to_one_request_one_wins(env: BusEnv) -> None:
    """Of answers at once from two processes one is stored; the other is told so, not thanked."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        for _ in range(10):
            task = await opened(user, "web", participants=["coder"])
            asked = await web.tasks.request_input(task, "Which year?")
            outcomes = await soon(
                asyncio.gather(
                    user.tasks.give_input(task, "2024", request=asked.event.id),
                    coder.tasks.give_input(task, "2025", request=asked.event.id),
                    return_exceptions=True,
                )
            )
            won = [one for one in outcomes if not isinstance(one, BaseException)]
            lost = [one for one in outcomes if isinstance(one, BaseException)]
            seen = await soon(web.waits.for_input(task, asked.event.id))

            assert len(won) == 1
            assert won[0].event == seen
            assert [type(one) for one in lost] == [InvalidTransitionError]
            assert (await types_of(user, task)).count("task.input_given") == 1


async def test_a_wait_for_input_ends_with_the_task(env: BusEnv) -> None:
    """An agent that waits for input is woken when the task is cancelled, and at its deadline."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        asked = await web.tasks.request_input(task, "Which year?")
        with pytest.raises(WaitTimeoutError):
            await web.waits.for_input(
                task, asked.event.id, after=asked.seq, timeout=timedelta(milliseconds=1)
            )
        waiting = asyncio.create_task(web.waits.for_input(task, asked.event.id, after=asked.seq))
        await user.tasks.cancel(task, "never mind")
        with pytest.raises(ThreadClosedError) as ended:
            await soon(waiting)
        with pytest.raises(ThreadClosedError):
            await user.tasks.give_input(task, "2024")

    assert ended.value.summary == "never mind"


async def test_an_outsider_cannot_give_input(env: BusEnv) -> None:
    """Only who is in the main thread can answer a request."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, "web")
        await web.tasks.request_input(task, "Which year?")
        with pytest.raises(NotAParticipantError):
            await coder.tasks.give_input(task, "1999")

        assert [event.sender for event in await events_of(user, task)] == ["user", "web"]
