"""Following the log: history, then what comes, without a gap or a duplicate."""

import asyncio
from collections import deque
from contextlib import aclosing

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, soon, take, write_raw
from threadbus.bus import Bus, Entry
from threadbus.bus.ports import StoredMessage
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    Recorded,
    Rejected,
    TaskId,
    TaskStatus,
    ThreadId,
    event_subject,
)


async def post_many(bus: Bus, task: TaskId, count: int, thread: ThreadId = MAIN_THREAD) -> None:
    """Post numbered messages, several at a time."""
    for start in range(0, count, 20):
        await asyncio.gather(
            *(bus.send(task, thread, str(number)) for number in range(start, start + 20))
        )


def seqs(entries: list[Entry]) -> list[int]:
    """Return the sequences of entries."""
    return [entry.seq for entry in entries]


async def test_a_follower_sees_history_and_what_comes(env: BusEnv) -> None:
    """While somebody writes, a follower sees every event once and in order."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await post_many(web, task, 100)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(take(user.follow(task), 501))
            group.create_task(post_many(web, task, 400))
        entries = following.result()
        stored = [entry async for entry in user.read(task)]

    assert entries == stored


async def test_a_follower_that_starts_late_goes_on_where_it_was(env: BusEnv) -> None:
    """Followers that begin after any sequence see exactly what is later."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await post_many(web, task, 100)
        stored = [entry async for entry in user.read(task)]
        writing = asyncio.create_task(post_many(web, task, 100))
        for index in (0, 1, 50, 99, 100):
            entries = await take(user.follow(task, after=stored[index].seq), 200 - index)

            assert seqs(entries)[: 100 - index] == seqs(stored)[index + 1 :]
            assert seqs(entries) == sorted(set(seqs(entries)))
        await writing


async def test_several_followers_see_the_same(env: BusEnv) -> None:
    """Followers of one task in one process and in others all see all of it."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, "web")
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(take(bus.follow(task), 201)) for bus in (user, user, web, coder)
            ]
            group.create_task(post_many(web, task, 200))
        expected = [entry async for entry in user.read(task)]

    for one in following:
        assert one.result() == expected


async def test_one_thread_is_followed_alone(env: BusEnv) -> None:
    """A follower of a thread sees nothing of the others."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await web.threads.open(task, "Side")).event.thread
        async with asyncio.TaskGroup() as group:
            following = group.create_task(take(user.follow(task, thread), 41))
            group.create_task(post_many(web, task, 40))
            group.create_task(post_many(web, task, 40, thread))
        entries = following.result()

    assert all(isinstance(one, Recorded) and one.event.thread == thread for one in entries)


class Kept(deque[StoredMessage]):
    """Knows how much was in it at most."""

    most = 0
    most_bytes = 0

    def append(self, message: StoredMessage) -> None:
        """Add a message."""
        super().append(message)
        Kept.most = max(Kept.most, len(self))
        Kept.most_bytes = max(Kept.most_bytes, sum(len(one.body) for one in self))


@pytest.mark.parametrize(("name", "limit"), [("_MAX_TAIL", 10), ("_MAX_TAIL_BYTES", 3000)])
async def test_a_slow_follower_misses_nothing(
    env: BusEnv, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    """What comes while a follower is busy, far more than it keeps in memory, it reads later."""
    monkeypatch.setattr(f"threadbus.bus.following.{name}", limit)
    monkeypatch.setattr("threadbus.bus.following.deque", Kept)
    monkeypatch.setattr(Kept, "most", 0)
    monkeypatch.setattr(Kept, "most_bytes", 0)
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        seen: list[Entry] = []
        async with aclosing(user.follow(task)) as entries:
            for step in range(6):
                # The follower stands still while more comes than its tail may hold.
                await post_many(web, task, 60)
                seen += await take(entries, 61 if step == 0 else 60)
        stored = [entry async for entry in user.read(task)]

    assert seen == stored
    # One message past the limit, at most, shows that it is reached.
    assert Kept.most <= 10 if name == "_MAX_TAIL" else Kept.most_bytes < limit + 1000


async def test_followers_report_foreign_bytes(env: BusEnv) -> None:
    """Bytes that are no event reach a follower as a report, live as from history."""
    subject_of = (AgentName("user"), EventClass.MSG)
    async with env.buses("user") as (user,), env.backend() as backend:
        task = await opened(user)
        subject = event_subject(task, MAIN_THREAD, subject_of[1], subject_of[0])
        await write_raw(backend, subject, b"\0")
        async with aclosing(user.follow(task)) as entries:
            history = await take(entries, 2)
            await write_raw(backend, subject, b"\xff")
            live = await take(entries, 1)

        assert [type(entry) for entry in (*history, *live)] == [Recorded, Rejected, Rejected]
        assert user.rejected == 2


async def test_a_follower_that_ends_disturbs_nobody(env: BusEnv) -> None:
    """Cancelling followers at any moment leaves the others and the bus as they were."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        async with asyncio.TaskGroup() as group:
            staying = group.create_task(take(user.follow(task), 201))
            writing = group.create_task(post_many(web, task, 200))
            while not writing.done():
                leaving = asyncio.create_task(take(user.follow(task), 1000))
                await asyncio.wait({writing}, timeout=0.003)
                leaving.cancel()
                await asyncio.wait({leaving})
                assert leaving.cancelled()

        assert len(staying.result()) == 201
        assert len(await events_of(user, task)) == 201


async def test_a_task_is_followed_before_it_is_there(env: BusEnv) -> None:
    """A follower of an id that is opened later sees it from its opening."""
    async with env.buses("user", "web") as (user, web):
        first = await opened(user, "web")
        task = TaskId(first[:-1] + ("0" if first[-1] != "0" else "1"))
        following = asyncio.create_task(take(web.follow(task), 2))
        await user.tasks.open("What?", to=["web"], task=task)
        await user.send(task, MAIN_THREAD, "Hello.")
        entries = await soon(following)

    assert [entry.event.type for entry in entries if isinstance(entry, Recorded)] == [
        "task.opened",
        "message.posted",
    ]


async def test_control_events_are_followed_alone(env: BusEnv) -> None:
    """A follower of the control events of a task sees its opening, its changes and its end."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await post_many(web, task, 20)
        async with user.waits.following_controls(task) as entries:
            history = await take(entries, 1)
            await web.threads.open(task, "Side")
            await web.tasks.request_input(task, "Which?")
            await post_many(web, task, 20)
            await web.tasks.close(task, TaskStatus.COMPLETED)
            live = await take(entries, 2)

    assert [entry.event.type for entry in (*history, *live) if isinstance(entry, Recorded)] == [
        "task.opened",
        "task.input_requested",
        "task.closed",
    ]
