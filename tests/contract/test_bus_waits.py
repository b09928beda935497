"""Waits for replies and results: before, during, at the deadline, at the end."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, forge, opened, receive, soon, text, write_raw
from threadbus.bus import (
    Appended,
    Bus,
    MentionFailedError,
    ThreadClosedError,
    WaitTimeoutError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AssignmentAccepted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentProgressed,
    ErrorInfo,
    MentionDeadLettered,
    ProposalMade,
    TaskId,
    TaskStatus,
    TextPart,
    ThreadId,
    encode_event,
    make_event,
    new_event_id,
)

AT_ONCE = timedelta(milliseconds=1)
BROKEN = ErrorInfo("ValueError", "no such file")


async def assign(bus: Bus, task: TaskId, agent: str, thread: ThreadId = MAIN_THREAD) -> Appended:
    """Give a piece of work to an agent."""
    return await bus.append(
        AssignmentMade(assignee=agent, parts=(TextPart("Do it."),)),
        task=task,
        thread=thread,
        mentions=[agent],
    )


async def test_a_request_returns_the_reply(env: BusEnv) -> None:
    """A request is answered by what the asked agent says in answer to it, not by other words."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])

        async def answer() -> None:
            async with web.inbox() as inbox:
                delivery = await soon(inbox.next())
                await web.send(task, MAIN_THREAD, "Thinking aloud.")
                await coder.send(task, MAIN_THREAD, "I say 41.", cause=delivery.event.id)
                await web.send(task, MAIN_THREAD, "42", cause=delivery.event.id)
                await delivery.ack()

        answering = asyncio.create_task(answer())
        reply = await soon(user.request(task, MAIN_THREAD, "6 * 7?", to="web"))
        await answering

    assert (reply.sender, text(reply)) == ("web", "42")


async def test_a_request_repeated_with_its_id_gets_the_reply_that_is_there(env: BusEnv) -> None:
    """Asking again with the same id, from another process, returns the earlier reply."""
    event_id = new_event_id()
    async with env.buses("user", "web") as (user, web), env.connect("user") as again:
        task = await opened(user, "web")
        await user.send(
            task, MAIN_THREAD, "6 * 7?", mentions=["web"], awaited=True, event_id=event_id
        )
        sent = await web.send(task, MAIN_THREAD, "42", cause=event_id)
        for bus in (user, again):
            reply = await soon(
                bus.request(task, MAIN_THREAD, "6 * 7?", to="web", event_id=event_id)
            )
            assert reply == sent.event


async def test_an_agent_that_gives_up_fails_the_request(env: BusEnv) -> None:
    """The dead letter of the asked agent is an error that says what went wrong."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        asked = await user.send(task, MAIN_THREAD, "6 * 7?", mentions=["web"])
        await forge(backend, task, MentionDeadLettered(error=BROKEN), cause=asked.event.id)
        waiting = asyncio.create_task(
            user.waits.for_reply(task, MAIN_THREAD, asked.event.id, web.name)
        )
        await web.append(
            MentionDeadLettered(error=BROKEN),
            task=task,
            cause=asked.event.id,
            mentions=["user"],
        )
        with pytest.raises(MentionFailedError) as failure:
            await soon(waiting)

    assert (failure.value.agent, failure.value.kind, failure.value.message) == (
        "web",
        "ValueError",
        "no such file",
    )


async def test_the_records_of_other_turns_are_passed_over(env: BusEnv) -> None:
    """What an agent records of other mentions ends no wait; the record of this one does.

    Also where whoever wrote it has escaped every character that JSON lets one escape.
    """
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        asked_id = new_event_id()
        waiting = asyncio.create_task(
            user.request(task, MAIN_THREAD, "6 * 7?", to="web", event_id=asked_id)
        )
        async with web.inbox() as inbox:
            _, asked = await receive(inbox, 2)
        other = MentionDeadLettered(error=ErrorInfo("KeyError", "another one"))
        await web.append(other, task=task, cause=new_event_id())
        own = make_event(
            MentionDeadLettered(error=BROKEN),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("web"),
            cause=asked.event.id,
        )
        escaped = "".join(f"\\u{ord(character):04x}" for character in asked_id)
        body = encode_event(own).replace(asked_id.encode(), escaped.encode())
        assert asked_id.encode() not in body
        await write_raw(backend, own.subject, body)
        with pytest.raises(MentionFailedError) as failure:
            await soon(waiting)

    assert failure.value.message == "no such file"


async def test_a_request_ends_at_its_deadline_and_with_its_thread(env: BusEnv) -> None:
    """Without a reply a request ends at its deadline, or when thread or task are closed."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        closes = (await user.threads.open(task, "A", participants=["web"])).event.thread
        stays = (await web.threads.open(task, "B", participants=["user"])).event.thread
        with pytest.raises(WaitTimeoutError):
            await user.request(task, MAIN_THREAD, "?", to="web", timeout=AT_ONCE)
        waiting = [
            asyncio.create_task(user.request(task, thread, "?", to="web"))
            for thread in (closes, stays, MAIN_THREAD)
        ]
        async with web.inbox() as inbox:
            for _ in range(5):
                await (await soon(inbox.next())).ack()
        await web.threads.close(task, closes, summary="enough")
        with pytest.raises(ThreadClosedError) as of_thread:
            await soon(waiting[0])
        await web.tasks.cancel(task, "all of it")
        for one in waiting[1:]:
            with pytest.raises(ThreadClosedError) as of_task:
                await soon(one)
            assert of_task.value.summary == "all of it"

    assert of_thread.value.summary == "enough"


async def test_results_of_every_kind_end_a_wait(env: BusEnv) -> None:
    """Finished, failed, cancelled and dead-lettered assignments all are results."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        made = [await assign(user, task, name) for name in ("web", "web", "coder", "coder")]
        ids = [one.event.id for one in made]
        waiting = asyncio.create_task(user.waits.for_results(task, ids))
        await web.append(AssignmentAccepted(assignment=ids[0]), task=task)
        await web.append(AssignmentProgressed(assignment=ids[0], fraction=0.5), task=task)
        await web.append(
            AssignmentFinished(assignment=ids[0], parts=(TextPart("done"),)), task=task
        )
        await web.append(AssignmentFailed(assignment=ids[1], error=BROKEN), task=task)
        await user.append(AssignmentCancelled(assignment=ids[2]), task=task)
        await coder.append(MentionDeadLettered(error=BROKEN), task=task, cause=ids[3])
        results = await soon(waiting)
        later = await soon(coder.waits.for_results(task, ids))
        after = await soon(user.waits.for_results(task, ids[2:], after=made[2].seq))

    assert [(results[one].ok, results[one].text) for one in ids] == [
        (True, "done"),
        (False, "no such file"),
        (False, ""),
        (False, "no such file"),
    ]
    assert [results[one].cancelled for one in ids] == [False, False, True, False]
    assert later == results
    assert after == {one: results[one] for one in ids[2:]}
    assert await user.waits.for_results(task, []) == {}


async def test_only_the_assignee_finishes_an_assignment(env: BusEnv) -> None:
    """A result that somebody else gives, inside the thread or outside, does not count."""
    async with env.buses("user", "web", "coder") as (user, web, coder), env.backend() as backend:
        task = await opened(user, participants=["web", "coder"])
        assignment = (await assign(user, task, "web")).event.id
        waiting = asyncio.create_task(user.waits.for_results(task, [assignment]))
        wrong = AssignmentFinished(assignment=assignment, parts=(TextPart("wrong"),))
        await coder.append(wrong, task=task)
        await forge(backend, task, wrong)
        await forge(backend, task, MentionDeadLettered(error=BROKEN), cause=assignment)
        await forge(backend, task, AssignmentCancelled(assignment=assignment))
        await web.append(
            AssignmentFinished(assignment=assignment, parts=(TextPart("right"),)), task=task
        )
        results = await soon(waiting)

    assert results[assignment].text == "right"


async def test_the_first_result_of_an_assignment_counts(env: BusEnv) -> None:
    """An assignee that finishes twice has finished once."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        first, second = await assign(user, task, "web"), await assign(user, task, "coder")
        for said in ("one", "two"):
            await web.append(
                AssignmentFinished(assignment=first.event.id, parts=(TextPart(said),)), task=task
            )
        await coder.append(AssignmentFinished(assignment=second.event.id), task=task)
        results = await soon(user.waits.for_results(task, [first.event.id, second.event.id]))

    assert results[first.event.id].text == "one"


async def test_a_wait_for_results_ends_with_what_it_waits_in(env: BusEnv) -> None:
    """The close of the thread of an assignment ends the wait; that of another thread does not."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        here = (await user.threads.open(task, "Here", participants=["web"])).event.thread
        there = (await user.threads.open(task, "There", participants=["web"])).event.thread
        made = await assign(user, task, "web", here)
        with pytest.raises(WaitTimeoutError):
            await user.waits.for_results(task, [made.event.id], timeout=AT_ONCE)
        waiting = [
            asyncio.create_task(user.waits.for_results(task, [made.event.id])),
            asyncio.create_task(user.waits.for_results(task, [made.event.id], thread=here)),
            asyncio.create_task(
                user.waits.for_results(task, [made.event.id], thread=here, after=made.seq)
            ),
        ]
        await web.threads.close(task, there)
        await web.threads.close(task, here, summary="over")
        for one in waiting:
            with pytest.raises(ThreadClosedError) as ended:
                await soon(one)
            assert ended.value.summary == "over"
        with pytest.raises(ThreadClosedError):
            await soon(user.waits.for_results(task, [made.event.id], thread=here, after=10**6))


async def test_a_close_wakes_every_waiter(env: BusEnv) -> None:
    """Whatever is waited for in a task, in whichever process, its end wakes them all."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        asked = await web.tasks.request_input(task, "Which?")
        made = await assign(user, task, "web")
        proposal = (
            await user.append(
                ProposalMade(parts=(TextPart("Stop here?"),), voters=("web", "coder")), task=task
            )
        ).event.id
        waiting = [
            asyncio.create_task(wait)
            for bus in (user, web, coder)
            for wait in (
                bus.waits.for_results(task, [made.event.id]),
                bus.waits.for_votes(task, proposal),
                bus.waits.for_input(task, asked.event.id),
                bus.waits.for_reply(task, MAIN_THREAD, asked.event.id, AgentName("user")),
            )
        ]
        closing = [asyncio.create_task(bus.waits.for_close(task)) for bus in (user, web, coder)]
        closed = await user.tasks.close(task, TaskStatus.FAILED, summary="over")
        outcomes = await soon(asyncio.gather(*waiting, return_exceptions=True))

        assert [type(one) for one in outcomes] == [ThreadClosedError] * 12
        assert await soon(asyncio.gather(*closing)) == [closed.event] * 3


async def test_a_cancelled_wait_loses_nothing(env: BusEnv) -> None:
    """A wait that is cancelled around the moment of its result can be repeated and has it."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        for turns in range(40):
            made = await assign(user, task, "web")
            waiting = asyncio.create_task(user.waits.for_results(task, [made.event.id]))
            finishing = asyncio.create_task(
                web.append(AssignmentFinished(assignment=made.event.id), task=task)
            )
            for _ in range(turns):
                await asyncio.wait({waiting}, timeout=0)
            waiting.cancel()
            await asyncio.wait({waiting, finishing})
            results = await soon(user.waits.for_results(task, [made.event.id], after=made.seq))

            assert results[made.event.id].ok
