"""The guard: what a thread does not allow is refused by the log, however stale the writer is."""

import asyncio

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, soon, types_of, write_raw
from threadbus.bus import NotAParticipantError, ThreadClosedError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    MessagePosted,
    TaskClosed,
    TaskStatus,
    TextPart,
    encode_event,
    event_subject,
    make_event,
)


async def test_a_message_after_the_close_is_refused(env: BusEnv) -> None:
    """A writer that still believes a thread to be open is told how it ended."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await user.threads.open(task, "Side", participants=["web"])).event.thread
        await web.send(task, thread, "I am here.")
        await user.threads.close(task, thread, summary="We are done.")
        with pytest.raises(ThreadClosedError) as refusal:
            await web.send(task, thread, "One more thing.")

        assert refusal.value.summary == "We are done."
        assert refusal.value.outcome == "concluded"
        assert (refusal.value.task, refusal.value.thread) == (task, thread)
        last = (await events_of(user, task, thread))[-1]
        assert last.type == "thread.closed"


async def test_a_removed_participant_is_refused(env: BusEnv) -> None:
    """An agent that was removed cannot go on, although it spoke a moment ago."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.send(task, MAIN_THREAD, "I am here.")
        await user.threads.remove(task, MAIN_THREAD, "web", reason="not needed")
        with pytest.raises(NotAParticipantError) as refusal:
            await web.send(task, MAIN_THREAD, "I am still here.")

        assert refusal.value.names == ("web",)
        assert refusal.value.participants == ("user",)
        assert (await types_of(user, task))[-1] == "thread.participant_removed"


async def test_a_mention_of_a_removed_participant_is_refused(env: BusEnv) -> None:
    """A writer that has not seen a removal cannot wake the removed agent."""
    async with env.buses("user", "planner", "web") as (user, planner, _):
        task = await opened(user, "planner", participants=["web"])
        await planner.send(task, MAIN_THREAD, "Hello.")
        await user.threads.remove(task, MAIN_THREAD, "web")
        with pytest.raises(NotAParticipantError) as refusal:
            await planner.send(task, MAIN_THREAD, "Help!", mentions=["web"])

    assert refusal.value.names == ("web",)


async def test_an_added_participant_may_speak_at_once(env: BusEnv) -> None:
    """A writer whose view is stale is let through once the log says that it takes part."""
    async with env.buses("user", "planner", "web") as (user, planner, web):
        task = await opened(user, "planner")
        with pytest.raises(NotAParticipantError):
            await web.send(task, MAIN_THREAD, "Hello.")
        await planner.threads.add(task, MAIN_THREAD, "web")
        appended = await web.send(task, MAIN_THREAD, "Hello.", mentions=["planner"])

        assert (await events_of(user, task))[-1] == appended.event


async def test_concurrent_changes_of_one_thread_all_succeed(env: BusEnv) -> None:
    """Sixteen processes that let somebody in at once all succeed, each exactly once."""
    adders = [f"adder-{number:02}" for number in range(16)]
    added = [f"added-{number:02}" for number in range(16)]
    async with env.buses("user", *adders) as (user, *buses), env.buses(*added):
        task = await opened(user, participants=adders)
        await soon(
            asyncio.gather(
                *(
                    bus.threads.add(task, MAIN_THREAD, name)
                    for bus, name in zip(buses, added, strict=True)
                )
            )
        )
        state = await user.threads.state(task)
        types = await types_of(user, task)

    assert set(state.participants) == {"user", *adders, *added}
    assert types.count("thread.participant_added") == 16


async def test_messages_do_not_contend(env: BusEnv) -> None:
    """Many messages at once from several processes are all stored, in order for each."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        appended = await soon(
            asyncio.gather(
                *(
                    bus.send(task, MAIN_THREAD, f"{bus.name} {number}")
                    for number in range(100)
                    for bus in (user, web, coder)
                )
            )
        )
        stored = await events_of(user, task)

    assert len({one.seq for one in appended}) == 300
    for bus in (user, web, coder):
        mine = [event for event in stored[1:] if event.sender == bus.name]
        assert [event.data for event in mine] == [
            MessagePosted(parts=(TextPart(f"{bus.name} {number}"),)) for number in range(100)
        ]


async def test_messages_around_a_close_are_stored_or_refused(env: BusEnv) -> None:
    """Of messages that race a close those that were accepted are before it, the rest refused."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")

        async def post(number: int) -> bool:
            try:
                await web.send(task, MAIN_THREAD, str(number))
            except ThreadClosedError:
                return False
            return True

        async def close() -> bool:
            await user.tasks.close(task, TaskStatus.COMPLETED)
            return True

        outcomes = await soon(
            asyncio.gather(*map(post, range(50)), close(), *map(post, range(50, 100)))
        )
        types = await types_of(user, task)

    assert types.index("task.closed") == len(types) - 1
    assert types.count("message.posted") == sum(outcomes) - 1


async def test_foreign_bytes_do_not_lock_a_thread(env: BusEnv) -> None:
    """Bytes that are no event on a thread's control subject hold nobody up."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        await web.send(task, MAIN_THREAD, "Before.")
        subject = event_subject(task, MAIN_THREAD, EventClass.CTL, AgentName("stranger"))
        await write_raw(backend, subject, b"\xff not an event")
        await web.send(task, MAIN_THREAD, "After.")
        await user.tasks.close(task, TaskStatus.COMPLETED)
        state = await user.tasks.state(task)

    assert state.status is TaskStatus.COMPLETED


async def test_control_events_of_outsiders_do_not_count(env: BusEnv) -> None:
    """A close by somebody who is not in the thread closes nothing for any reader."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        forged = make_event(
            TaskClosed(outcome=TaskStatus.FAILED, summary="Ha!"),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("stranger"),
        )
        await write_raw(backend, forged.subject, encode_event(forged))
        await web.send(task, MAIN_THREAD, "Still here.")
        thread = await user.threads.state(task)
        state = await web.tasks.state(task)
        (summary,) = await user.tasks.list()

    assert thread.is_open
    assert thread.ignored == 1
    assert state.status is TaskStatus.WORKING
    assert summary.status is TaskStatus.WORKING


async def test_a_stale_opener_of_a_thread_is_refused(env: BusEnv) -> None:
    """A thread cannot grow from a parent that was closed by somebody else in the meantime."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.send(task, MAIN_THREAD, "I am here.")
        await user.tasks.close(task, TaskStatus.COMPLETED)
        with pytest.raises(ThreadClosedError):
            await web.threads.open(task, "Too late")

        assert (await types_of(user, task))[-1] == "task.closed"
