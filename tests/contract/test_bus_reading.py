"""Reading the log: whole tasks, single threads, from a sequence, in many batches."""

import asyncio
from contextlib import aclosing

import pytest

from tests.support.bus_env import (
    BusEnv,
    entries_of,
    events_of,
    opened,
    soon,
    text,
    types_of,
    write_raw,
)
from threadbus.bus import ClosedError, TaskState, fold_task
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    MessagePosted,
    OpaqueData,
    Recorded,
    Rejected,
    TaskStatus,
    TextPart,
    ThreadId,
    encode_event,
    event_subject,
    make_event,
    new_event_id,
    new_task_id,
)


async def test_a_task_is_read_in_log_order(env: BusEnv) -> None:
    """Everything in a task is read with rising sequences and the time at which it was stored."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        other = await opened(user, "web")
        appended = [
            await bus.send(one, MAIN_THREAD, str(number))
            for number in range(3)
            for bus in (user, web)
            for one in (task, other)
        ]
        entries = [entry for entry in await entries_of(web, task) if isinstance(entry, Recorded)]

    assert [entry.event for entry in entries[1:]] == [one.event for one in appended[::2]]
    assert [entry.seq for entry in entries[1:]] == [one.seq for one in appended[::2]]
    stored = [entry.stored_at for entry in entries]
    assert stored == sorted(stored)
    assert all(entry.stored_at > entry.event.at - 10**9 for entry in entries)


async def test_one_thread_is_read_alone(env: BusEnv) -> None:
    """Reading a thread leaves out the others, the main one included."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        thread = (await user.threads.open(task, "Side")).event.thread
        await user.send(task, MAIN_THREAD, "main")
        await user.send(task, thread, "side")

        assert [event.type for event in await events_of(user, task, thread)] == [
            "thread.opened",
            "message.posted",
        ]
        assert [event.type for event in await events_of(user, task, MAIN_THREAD)] == [
            "task.opened",
            "message.posted",
        ]
        assert await events_of(user, task, ThreadId("nowhere")) == []
        assert await events_of(user, new_task_id()) == []


async def test_reading_goes_on_after_a_sequence(env: BusEnv) -> None:
    """A reader that knows the log up to a sequence gets exactly what is later."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        appended = [await user.send(task, MAIN_THREAD, str(number)) for number in range(5)]
        for index, one in enumerate(appended):
            later = [entry async for entry in user.read(task, after=one.seq)]

            assert [entry.seq for entry in later] == [two.seq for two in appended[index + 1 :]]


async def test_a_long_task_is_read_whole(env: BusEnv) -> None:
    """More events than one batch holds are read without a gap or a repetition."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        for start in range(0, 2500, 500):
            await soon(
                asyncio.gather(
                    *(
                        user.send(task, MAIN_THREAD, str(number))
                        for number in range(start, start + 500)
                    )
                )
            )
        events = await events_of(user, task)
        entries = [entry async for entry in user.read(task)]
        middle = entries[1234].seq
        later = [entry.seq async for entry in user.read(task, after=middle)]

    assert [text(event) for event in events[1:]] == [str(number) for number in range(2500)]
    assert later == [entry.seq for entry in entries[1235:]]


async def test_a_reader_may_stop_early(env: BusEnv) -> None:
    """Leaving a read in the middle of a batch disturbs nothing."""
    async with env.buses("user") as (user,):
        task = await opened(user)
        for number in range(10):
            await user.send(task, MAIN_THREAD, str(number))
        async with aclosing(user.read(task)) as entries:
            first = await anext(entries)

        assert isinstance(first, Recorded)
        assert first.event.type == "task.opened"
        assert len(await events_of(user, task)) == 11


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\xff\xfe",
        b"not json",
        b"{}",
        b"[" * 10_000,
        b"null",
        b'{"v":1}',
        b'{"v":1,"id":"\\u0000"}',
        '{"v":1,"id":"\ud800"}'.encode("utf-8", "surrogatepass"),
        bytes(range(256)) * 100,
    ],
    ids=["empty", "nul", "utf16", "text", "object", "deep", "null", "v", "nuls", "half", "all"],
)
async def test_foreign_bytes_are_reported_and_passed_over(env: BusEnv, body: bytes) -> None:
    """Bytes that are no event are a report with a reason; what is around them is read."""
    async with env.buses("user") as (user,), env.backend() as backend:
        task = await opened(user)
        subject = event_subject(task, MAIN_THREAD, EventClass.MSG, AgentName("user"))
        seq = await write_raw(backend, subject, body)
        await user.send(task, MAIN_THREAD, "after")
        first, rejected, last = await entries_of(user, task)
        state = await user.tasks.state(task)

        assert isinstance(first, Recorded)
        assert isinstance(rejected, Rejected)
        assert isinstance(last, Recorded)
        assert (rejected.seq, rejected.subject) == (seq, subject)
        assert rejected.reason
        assert len(rejected.reason) < 1000
        assert rejected.reason.isprintable()
        assert user.rejected == 2
        assert state.events == 2


async def test_a_body_that_contradicts_its_subject_is_rejected(env: BusEnv) -> None:
    """A message whose body names another sender, task or mentions than its subject is none."""
    async with env.buses("user", "web") as (user, _), env.backend() as backend:
        task = await opened(user, "web")
        honest = make_event(
            MessagePosted(parts=(TextPart("I am web."),)),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("web"),
        )
        await write_raw(backend, honest.subject.replace(".web", ".user"), encode_event(honest))
        await write_raw(backend, f"{honest.subject}.user", encode_event(honest))
        await write_raw(backend, honest.subject.replace(".msg.", ".work."), encode_event(honest))
        entries = await entries_of(user, task)

    assert [type(entry) for entry in entries] == [Recorded, Rejected, Rejected, Rejected]


async def test_subjects_outside_the_grammar_are_rejected(env: BusEnv) -> None:
    """Whatever is published on the subjects of a task is read, and reported where it is odd."""
    async with env.buses("user") as (user,), env.backend() as backend:
        task = await opened(user)
        for tail in ("main", "main.msg", "main.shout.user", "Main.msg.user", "main.msg.U-S-E-R"):
            await write_raw(backend, f"bus.{task}.{tail}", b"{}")
        await write_raw(backend, "bus.x", b"{}")
        await write_raw(backend, f"bus.{task}.main.msg.user" + ".web" * 17, b"{}")
        entries = await entries_of(user, task)
        listed = await user.tasks.list()

    assert [type(entry) for entry in entries] == [Recorded, *[Rejected] * 6]
    assert [summary.task for summary in listed] == [task]


async def test_a_type_of_the_future_is_kept_as_it_is(env: BusEnv) -> None:
    """An event of a type that this version does not know is read, not refused."""
    async with env.buses("user") as (user,), env.backend() as backend:
        task = await opened(user)
        subject = event_subject(task, MAIN_THREAD, EventClass.WORK, user.name)
        event_id = new_event_id()
        body = (
            f'{{"v":1,"id":"{event_id}","type":"dream.had","task":"{task}","thread":"main",'
            '"sender":"user","at":1,"data":{"new":[1,2]}}'
        )
        await write_raw(backend, subject, body.encode())
        *_, event = await events_of(user, task)
        state = await user.tasks.state(task)

    assert (event.id, event.type) == (event_id, "dream.had")
    assert event.data == OpaqueData(raw=b'{"new":[1,2]}', event_class=EventClass.WORK)
    assert state.status is TaskStatus.WORKING


async def test_the_state_is_the_same_fold_for_everybody(env: BusEnv) -> None:
    """The state that the bus gives is what a pure fold of the read events gives."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        thread = (await web.threads.open(task, "Side", participants=["user"])).event.thread
        await user.send(task, thread, "Hello.")
        await web.threads.close(task, thread, summary="done")
        await web.tasks.submit_answer(task, "It is.")
        entries = [entry for entry in await entries_of(user, task) if isinstance(entry, Recorded)]
        state = await web.tasks.state(task)

        assert fold_task(task, entries) == state
        assert fold_task(task, [*entries, *entries]) == state
        assert fold_task(task, []) == TaskState(task=task)
        assert state.threads[thread] == await user.threads.state(task, thread)


async def test_a_bus_that_was_left_says_so(env: BusEnv) -> None:
    """After its context has ended a bus neither appends nor reads nor waits."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        async with env.connect("web") as gone:
            await gone.send(task, MAIN_THREAD, "Here.")
        with pytest.raises(ClosedError):
            await soon(gone.send(task, MAIN_THREAD, "Gone."))
        with pytest.raises(ClosedError):
            await soon(events_of(gone, task))
        with pytest.raises(ClosedError):
            await soon(gone.waits.for_answer(task))
        with pytest.raises(ClosedError):
            await soon(gone.artifacts.put(b"gone"))
        with pytest.raises(ClosedError):
            await soon(gone.publish_live(task, MAIN_THREAD, "gone"))
        with pytest.raises(ClosedError):
            async with gone.inbox():
                pass
        with pytest.raises(ClosedError):
            await soon(gone.registry.list())

        assert len(await types_of(web, task)) == 2
