"""Threads of a super-task: opening, letting in and out, closing, conversation state."""

import asyncio
import time
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, comes_to, events_of, opened, soon, types_of
from threadbus.bus import (
    InvalidTransitionError,
    NotAParticipantError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    ConversationState,
    LimitExceededError,
    SchemaError,
    TaskStatus,
    ThreadId,
    ThreadOutcome,
    derive_thread_id,
    new_event_id,
    new_task_id,
)


async def test_a_thread_has_its_own_participants(env: BusEnv) -> None:
    """A thread has who opened it and whom it names; others of the task are outside."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        appended = await web.threads.open(
            task, "Check the numbers", participants=["coder"], goal="one number", max_turns=4
        )
        thread = appended.event.thread
        await coder.send(task, thread, "Here I am.", mentions=["web"])
        with pytest.raises(NotAParticipantError):
            await user.send(task, thread, "And I?")
        state = await user.threads.state(task, thread)

        assert thread.startswith("check-the-numbers-")
        assert list(state.participants) == ["web", "coder"]
        assert (state.title, state.goal, state.max_turns) == (
            "Check the numbers",
            "one number",
            4,
        )
        assert (state.parent, state.creator, state.is_open) == (MAIN_THREAD, "web", True)
        await comes_to(user.pending_mentions, {"web": 1})


async def test_threads_nest(env: BusEnv) -> None:
    """A thread may grow from another; whoever is not in that one cannot open it."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        outer = (await web.threads.open(task, "Outer")).event.thread
        inner = (
            await web.threads.open(task, "Inner", parent=outer, participants=["coder"])
        ).event.thread
        with pytest.raises(NotAParticipantError):
            await coder.threads.open(task, "Not mine", parent=outer)
        with pytest.raises(ThreadNotFoundError):
            await web.threads.open(task, "Nowhere", parent=ThreadId("nowhere"))
        with pytest.raises(TaskNotFoundError):
            await web.threads.open(new_task_id(), "Nowhere")
        threads = await user.threads.list(task)

    assert [(thread.thread, thread.parent) for thread in threads] == [
        (MAIN_THREAD, None),
        (outer, MAIN_THREAD),
        (inner, outer),
    ]


async def test_titles_may_repeat(env: BusEnv) -> None:
    """Two threads of one title are two threads; a title in any script makes a usable id."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        ids = {
            (await user.threads.open(task, title)).event.thread
            for title in ("Same", "Same", "数字", "../../etc", "")
        }
        threads = await user.threads.list(task)

    assert len(ids) == 5
    assert {thread.thread for thread in threads} == {MAIN_THREAD, *ids}


async def test_a_thread_is_opened_once(env: BusEnv) -> None:
    """One thread id is opened by one event: again is a duplicate, by another is refused."""
    async with env.buses("user", "web") as (user, web):
        appended = await user.tasks.open("What?", to=["web"])
        task, cause = appended.event.task, appended.event.id
        thread = derive_thread_id("Side", cause, user.name, 0)
        event_id = new_event_id()
        first = await user.threads.open(task, "Side", thread=thread, event_id=event_id)
        second = await user.threads.open(task, "Side", thread=thread, event_id=event_id)
        with pytest.raises(InvalidTransitionError):
            await web.threads.open(task, "Side", thread=thread)
        outcomes = await soon(
            asyncio.gather(
                *(bus.threads.open(task, "Race", thread=ThreadId("race")) for bus in (user, web)),
                return_exceptions=True,
            )
        )

        assert (first.seq, first.duplicate) == (second.seq, not second.duplicate)
        assert [isinstance(one, InvalidTransitionError) for one in outcomes].count(True) == 1
        assert (await types_of(user, task)).count("thread.opened") == 2


async def test_a_thread_that_others_opened_is_found_later(env: BusEnv) -> None:
    """Who looked for a thread too early finds it once it is there."""
    thread = ThreadId("soon")
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        with pytest.raises(ThreadNotFoundError):
            await web.send(task, thread, "Hello?")
        await user.threads.open(task, "Soon", thread=thread, participants=["web"])
        await web.send(task, thread, "Hello!")

        assert (await types_of(user, task))[-1] == "message.posted"


async def test_only_registered_agents_are_let_in(env: BusEnv) -> None:
    """An unknown participant is refused with the nearest names, and nothing is stored."""
    async with env.buses("user", "document") as (user, _):
        task = await opened(user)
        with pytest.raises(UnknownAgentError) as at_opening:
            await user.threads.open(task, "Side", participants=["documents"])
        with pytest.raises(UnknownAgentError) as at_adding:
            await user.threads.add(task, MAIN_THREAD, "documnt")

        assert at_opening.value.nearest == at_adding.value.nearest == ("document",)
        assert await types_of(user, task) == ["task.opened"]


async def test_agents_are_let_in_and_out(env: BusEnv) -> None:
    """Adding lets in, removing takes out, adding again lets in again; each only when needed."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        task = await opened(user, "web")
        await user.threads.add(task, MAIN_THREAD, "coder")
        with pytest.raises(InvalidTransitionError):
            await web.threads.add(task, MAIN_THREAD, "coder")
        await web.threads.remove(task, MAIN_THREAD, "coder")
        with pytest.raises(InvalidTransitionError):
            await user.threads.remove(task, MAIN_THREAD, "coder")
        without = await user.threads.state(task)
        removed, taking_part = set(without.removed), list(without.participants)
        await user.threads.add(task, MAIN_THREAD, "coder")
        again = await user.threads.state(task)

    assert (removed, taking_part) == ({"coder"}, ["user", "web"])
    assert (set(again.removed), list(again.participants)) == (set(), ["user", "web", "coder"])


async def test_who_leaves_is_gone(env: BusEnv) -> None:
    """An agent may take itself out; then it can say and change nothing."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.threads.remove(task, MAIN_THREAD, "web", reason="done here")
        with pytest.raises(NotAParticipantError):
            await web.threads.add(task, MAIN_THREAD, "web")
        state = await user.threads.state(task)

    assert list(state.participants) == ["user"]


async def test_the_first_close_of_a_thread_stands(env: BusEnv) -> None:
    """A second close, from anybody, is refused with the summary of the first; all stays."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await user.threads.open(task, "Side", participants=["web"])).event.thread
        said = await web.send(task, thread, "before the end")
        await web.threads.close(task, thread, summary="first", outcome=ThreadOutcome.ABANDONED)
        for bus in (user, web):
            with pytest.raises(ThreadClosedError) as refusal:
                await bus.threads.close(task, thread, summary="second")
            assert (refusal.value.summary, refusal.value.outcome) == ("first", "abandoned")
        state = await user.threads.state(task, thread)
        kept = await events_of(user, task, thread)

    assert (state.is_open, state.summary, state.outcome) == (False, "first", "abandoned")
    assert said.event in kept


async def test_a_closed_thread_leaves_the_task_open(env: BusEnv) -> None:
    """Closing a thread ends that one alone; the main thread ends with the task only."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await web.threads.open(task, "Side")).event.thread
        await web.threads.close(task, thread)
        with pytest.raises(InvalidTransitionError):
            await web.threads.close(task, MAIN_THREAD)
        await web.send(task, MAIN_THREAD, "Going on.")
        state = await user.tasks.state(task)

    assert state.status is TaskStatus.WORKING
    assert state.threads[MAIN_THREAD].is_open
    assert not state.threads[thread].is_open


async def test_waiting_for_the_end_of_a_thread(env: BusEnv) -> None:
    """A wait for the end of a thread returns what closed it: its own close, or the task's."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        closes = (await web.threads.open(task, "Closes")).event.thread
        left = (await web.threads.open(task, "Left open")).event.thread
        with pytest.raises(WaitTimeoutError):
            await user.waits.for_close(task, closes, timeout=timedelta(milliseconds=1))
        waiting = [
            asyncio.create_task(user.waits.for_close(task, one))
            for one in (closes, left, MAIN_THREAD)
        ]
        closed = await web.threads.close(task, closes, summary="done")
        assert await soon(waiting[0]) == closed.event
        ended = await user.tasks.close(task, TaskStatus.COMPLETED)
        assert await soon(waiting[1]) == await soon(waiting[2]) == ended.event

        assert await soon(web.waits.for_close(task, closes)) == closed.event
        with pytest.raises(ThreadNotFoundError):
            await soon(web.waits.for_close(task, ThreadId("nowhere")))


async def test_the_conversation_state_moves(env: BusEnv) -> None:
    """The state of a conversation and who speaks next are part of the thread's state."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        task = await opened(user, participants=["web", "coder"])
        await web.threads.change_state(
            task,
            MAIN_THREAD,
            ConversationState.SYNC_ASSIGNMENT,
            next_speakers=["coder", "web"],
            triggers=[new_event_id()],
            deadline_at=time.time_ns() + 10**12,
            reason="the numbers first",
        )
        state = await user.threads.state(task)

        assert state.conversation is ConversationState.SYNC_ASSIGNMENT
        assert state.next_speakers == ("coder", "web")
        with pytest.raises(SchemaError):
            await web.threads.change_state(
                task, MAIN_THREAD, ConversationState.DISCUSSION, next_speakers=["Not A Name"]
            )
        assert len(await events_of(user, task)) == 2


async def test_limits_of_a_thread_are_named(env: BusEnv) -> None:
    """A title or a list of participants over its limit is refused and nothing is stored."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user)
        with pytest.raises(SchemaError, match="400"):
            await user.threads.open(task, "x" * 401)
        with pytest.raises((LimitExceededError, SchemaError)):
            await user.threads.open(task, "x\0y")

        assert await types_of(user, task) == ["task.opened"]


async def test_threads_are_listed_with_the_main_one_first(env: BusEnv) -> None:
    """The list has every thread of the task, the main thread first, the others by age."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        ids = [(await user.threads.open(task, f"T{number}")).event.thread for number in range(5)]
        threads = await user.threads.list(task)

    assert [thread.thread for thread in threads] == [MAIN_THREAD, *ids]
