"""An answer and the end of its task go out together, and the end is never there without it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, soon, text, types_of, written
from threadbus.bus import StorageFullError, ThreadClosedError, ThreadState
from threadbus.bus.log import EventLog
from threadbus.bus.ports import Backend, Guard, GuardFailedError
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    SubjectFilter,
    TaskId,
    control_filter,
    event_subject,
    new_event_id,
    new_task_id,
    partition_of,
)


async def write(backend: Backend, task: TaskId, guard: Guard | None = None) -> str:
    """Write a message past the bus and return its id."""
    msg_id = new_event_id()
    subject = event_subject(task, MAIN_THREAD, EventClass.MSG, AgentName("user"))
    future = await backend.log.append(
        subject, b"{}", msg_id=msg_id, guard=guard, headers={}, timeout=timedelta(seconds=20)
    )
    await soon(future)
    return msg_id


def behind(task: TaskId, msg_id: str) -> Guard:
    """Return the guard of a thread without control events, behind a message."""
    return Guard(SubjectFilter(control_filter(task, MAIN_THREAD)), 0, msg_id)


def beside(task: TaskId, partitions: int) -> TaskId:
    """Return the id of another task of the same partition."""
    while True:
        other = new_task_id()
        if partition_of(other, partitions) == partition_of(task, partitions):
            return other


async def test_a_message_behind_another_is_refused_once_something_came_between(
    env: BusEnv,
) -> None:
    """The condition holds for the last message of the whole partition, of whatever task."""
    task = new_task_id()
    async with env.backend() as backend:
        other = beside(task, backend.log.partitions)
        first = await write(backend, task)
        second = await write(backend, task, behind(task, first))
        await write(backend, other)
        with pytest.raises(GuardFailedError):
            await write(backend, task, behind(task, second))
        with pytest.raises(GuardFailedError):
            await write(backend, task, behind(task, new_event_id()))

        assert await written(backend) == 3


async def test_answers_of_many_tasks_at_once_each_end_their_own(env: BusEnv) -> None:
    """Other writers come between an answer and its close; each task has one of both, in order."""
    async with env.buses("user", "web") as (user, web):
        tasks = [await opened(user, "web") for _ in range(30)]

        async def chatter() -> None:
            talk = await opened(user, "web")
            while True:
                await user.send(talk, MAIN_THREAD, "by the way")

        chattering = [asyncio.create_task(chatter()) for _ in range(4)]
        await soon(asyncio.gather(*(web.tasks.submit_answer(task, task) for task in tasks)))
        for one in chattering:
            one.cancel()
        await asyncio.wait(chattering)

        for task in tasks:
            assert await types_of(user, task) == ["task.opened", "answer.submitted", "task.closed"]
            _, answer, _ = await events_of(user, task)
            assert text(answer) == task


async def test_an_answer_waits_for_who_comes_into_the_thread(env: BusEnv) -> None:
    """Where the thread has changed unseen, both are refused at first and both are there at last."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        task = await opened(user, "web")
        await web.threads.state(task)
        await user.threads.add(task, MAIN_THREAD, "coder")
        await web.tasks.submit_answer(task, "It is.", mentions=["coder"])

        assert await types_of(user, task) == [
            "task.opened",
            "thread.participant_added",
            "answer.submitted",
            "task.closed",
        ]


async def test_an_answer_that_meets_another_end_leaves_nothing(env: BusEnv) -> None:
    """Where the task has ended unseen, neither the answer nor a second end is stored."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.threads.state(task)
        await user.tasks.cancel(task)
        with pytest.raises(ThreadClosedError):
            await web.tasks.submit_answer(task, "It is.")

        assert await types_of(user, task) == ["task.opened", "task.closed"]


async def test_a_task_does_not_end_without_its_answer() -> None:
    """Where the answer cannot be stored, the end is not stored either, and both can come later."""
    backend = InMemoryBackend()
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        answer_id = new_event_id()
        backend.fail_next(StorageFullError("disk full"), where="bus.*.*.work.>")
        with pytest.raises(StorageFullError):
            await user.tasks.submit_answer(task, "It is.", event_id=answer_id)

        assert await types_of(user, task) == ["task.opened"]
        await user.tasks.submit_answer(task, "It is.", event_id=answer_id)
        assert await types_of(user, task) == ["task.opened", "answer.submitted", "task.closed"]


async def test_an_end_whose_answer_was_stored_comes_later() -> None:
    """Where only the end cannot be stored, the same call again brings it."""
    backend = InMemoryBackend()
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        answer_id = new_event_id()
        backend.fail_next(StorageFullError("disk full"), where="bus.*.*.ctl.>")
        with pytest.raises(StorageFullError):
            await user.tasks.submit_answer(task, "It is.", event_id=answer_id)
        submitted = await user.tasks.submit_answer(task, "It is.", event_id=answer_id)

        assert submitted.duplicate
        assert await types_of(user, task) == ["task.opened", "answer.submitted", "task.closed"]


async def test_an_answer_looks_for_other_threads_only_where_there_may_be_any(
    env: BusEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a lone thread reads nothing; a thread that nobody here saw open is ended too."""
    looked: list[TaskId] = []
    threads = EventLog.threads

    async def noted(log: EventLog, task: TaskId) -> Sequence[ThreadState]:
        looked.append(task)
        return await threads(log, task)

    monkeypatch.setattr(EventLog, "threads", noted)
    async with env.buses("user", "web") as (user, web):
        alone, beside = await opened(user, "web"), await opened(user, "web")
        assert (await web.threads.state(alone)).is_open
        assert (await web.threads.state(beside)).is_open
        side = (await user.threads.open(beside, "side", participants=["web"])).event.thread
        looked.clear()
        await web.tasks.submit_answer(alone, "It is.")
        assert looked == []
        await web.tasks.submit_answer(beside, "It is.")
        assert looked == [beside]

        assert await types_of(user, alone) == ["task.opened", "answer.submitted", "task.closed"]
        assert await types_of(user, beside) == [
            "task.opened",
            "thread.opened",
            "answer.submitted",
            "task.closed",
            "thread.closed",
        ]
        assert not (await user.threads.state(beside, side)).is_open
