"""Conversation control: moves, pauses that end once, turn limits, limits of teams."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, soon, write_raw
from threadbus.bus import (
    Bus,
    InvalidTransitionError,
    Job,
    NotAParticipantError,
    TeamLimitError,
    ThreadClosedError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ConversationState,
    ErrorInfo,
    Event,
    EventId,
    MessagePosted,
    Recorded,
    TaskId,
    TextPart,
    ThreadId,
    ThreadStateChanged,
    encode_event,
    make_event,
    new_event_id,
)

JOBS = [Job("web", "look", title="Look"), Job("coder", "count")]


async def team(
    lead: Bus,
    task: TaskId,
    *,
    max_turns: int | None = None,
    max_members: int | None = None,
    max_depth: int | None = None,
) -> ThreadId:
    """Open a thread for the usual three."""
    appended = await lead.threads.open(
        task,
        "Team",
        participants=["web", "coder"],
        goal="a number",
        max_turns=max_turns,
        max_members=max_members,
        max_depth=max_depth,
    )
    return appended.event.thread


async def finish(bus: Bus, task: TaskId, thread: ThreadId, assignment: EventId) -> None:
    """Hand over a result."""
    await bus.append(
        AssignmentFinished(assignment=assignment, parts=(TextPart(f"{bus.name} is done"),)),
        task=task,
        thread=thread,
    )


async def recorded(bus: Bus, event: Event) -> Recorded:
    """Return an event as the inbox would deliver it."""
    (found,) = [
        entry
        async for entry in bus.read(event.task)
        if isinstance(entry, Recorded) and entry.event.id == event.id
    ]
    return found


async def moves(bus: Bus, task: TaskId) -> list[str]:
    """Return the states that the conversations of a task went through."""
    return [
        event.data.state.value
        for event in await events_of(bus, task)
        if isinstance(event.data, ThreadStateChanged)
    ]


async def test_a_pause_ends_once_when_all_its_work_has_ended(env: BusEnv) -> None:
    """The assigner is woken by one event after the last assignment ended, whoever asks for it."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, coder):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        given = await lead.conversations.assign(task, thread, JOBS, reason="both at once")
        state = await user.threads.state(task, thread)
        pause = await recorded(lead, given.pause.event)
        waits = [asyncio.create_task(lead.conversations.wake(pause)) for _ in range(3)]
        await finish(web, task, thread, given.assignments[0])
        error = ErrorInfo("Broken", "no numbers")
        await coder.append(
            AssignmentFailed(assignment=given.assignments[1], error=error),
            task=task,
            thread=thread,
        )
        woken = [await soon(wait) for wait in waits]
        again = await soon(lead.conversations.wake(pause))
        outcomes = await lead.conversations.outcomes(task, pause.event.id)
        after = await user.threads.state(task, thread)
        log = await events_of(user, task)

    assert state.conversation is ConversationState.ASYNC_ASSIGNMENT
    assert state.next_speakers == ("web", "coder")
    assert [event.mentions for event in log if isinstance(event.data, AssignmentMade)] == [
        ("web",),
        ("coder",),
    ]
    wakes = [event for event in log if getattr(event.data, "wakes", None)]
    assert [(event.sender, event.mentions) for event in wakes] == [("lead", ("lead",))]
    assert {appended.event.id for appended in woken if appended} == {wakes[0].id}
    assert again is None
    assert [one.ok if one else None for one in outcomes.values()] == [True, False]
    assert (after.conversation, after.next_speakers) == (ConversationState.DISCUSSION, ("lead",))
    assert after.pauses == {}


@pytest.mark.parametrize("ending", ["cancelled", "expired", "thread closed", "task closed"])
async def test_a_pause_ends_however_its_work_ends(env: BusEnv, ending: str) -> None:
    """Cancelled and expired work wakes the assigner too; the end of the thread wakes nobody."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, *_):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        timeout = timedelta(seconds=0.2 if ending == "expired" else 60)
        given = await lead.conversations.assign(task, thread, JOBS, sync=True, timeout=timeout)
        pause = await recorded(lead, given.pause.event)
        wait = asyncio.create_task(lead.conversations.wake(pause))
        if ending == "cancelled":
            for assignment in given.assignments:
                await lead.append(
                    AssignmentCancelled(assignment=assignment), task=task, thread=thread
                )
        elif ending == "thread closed":
            await lead.threads.close(task, thread)
        elif ending == "task closed":
            await user.tasks.cancel(task)
        woken = await soon(wait)
        state = await user.threads.state(task, thread)

    if "closed" in ending:
        assert woken is None
    else:
        assert woken is not None
        assert state.conversation is ConversationState.DISCUSSION


@pytest.mark.parametrize("trigger", ["ended before", "ends now", "never made"])
async def test_a_pause_for_work_of_another_thread_ends_with_it(env: BusEnv, trigger: str) -> None:
    """Work that has ended already wakes at once; what nobody ever made is waited for in bounds."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, _):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        made = AssignmentMade(assignee="web", parts=(TextPart("look"),))
        given = await lead.append(made, task=task, mentions=["web"])
        if trigger == "ended before":
            await finish(web, task, MAIN_THREAD, given.event.id)
        waited = new_event_id() if trigger == "never made" else given.event.id
        timeout = timedelta(seconds=0.2 if trigger == "never made" else 60)
        paused = await lead.conversations.pause(task, thread, [waited], timeout=timeout)
        state = await user.threads.state(task, thread)
        wait = asyncio.create_task(lead.conversations.wake(await recorded(lead, paused.event)))
        if trigger == "ends now":
            await finish(web, task, MAIN_THREAD, given.event.id)
        woken = await soon(wait)
        outcomes = await lead.conversations.outcomes(task, paused.event.id)
        after = await user.threads.state(task, thread)

    assert state.conversation is ConversationState.PAUSED
    assert woken is not None
    ended = trigger != "never made"
    assert [one is not None and one.ok for one in outcomes.values()] == [ended]
    assert after.move_reason == (
        "1 of 1 assignments finished" if ended else "the deadline has passed"
    )
    assert after.conversation is ConversationState.DISCUSSION


async def test_what_rests_is_not_talked_on_with(env: BusEnv) -> None:
    """In a wait the only moves are the wake and the conclusion; the error names them."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, _):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        given = await lead.conversations.assign(task, thread, JOBS, sync=True)
        with pytest.raises(InvalidTransitionError, match="the wake of lead") as refused:
            await lead.conversations.hand_on(task, thread, ["web"])
        with pytest.raises(InvalidTransitionError):
            await lead.conversations.assign(task, thread, JOBS)
        with pytest.raises(InvalidTransitionError, match="that of lead"):
            await web.append(
                ThreadStateChanged(state=ConversationState.DISCUSSION, wakes=given.pause.event.id),
                task=task,
                thread=thread,
            )
        with pytest.raises(InvalidTransitionError, match=r"rests until 2 .*conclusion by lead"):
            await web.conversations.conclude(task, thread, "It is over.")
        await web.send(task, thread, "Which numbers?", mentions=["lead"])

        assert refused.value.allowed[1] == "conclusion by lead or lead"
        assert await moves(user, task) == ["sync_assignment"]


async def test_beside_async_work_the_discussion_goes_on(env: BusEnv) -> None:
    """An async assignment lets the floor be handed on, and is waited for all the same."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, coder):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        given = await lead.conversations.assign(task, thread, JOBS[:1])
        with pytest.raises(NotAParticipantError):
            await lead.conversations.hand_on(task, thread, ["coder", "user"])
        await lead.conversations.hand_on(task, thread, ["coder"])
        with pytest.raises(InvalidTransitionError, match="coder has the floor, not web"):
            await web.conversations.hand_on(task, thread, ["web"])
        await finish(web, task, thread, given.assignments[0])
        pause = await recorded(lead, given.pause.event)
        await soon(lead.conversations.wake(pause))
        state = await user.threads.state(task, thread)
        await coder.conversations.hand_on(task, thread, ["lead"])

    assert state.next_speakers == ("coder", "lead")


async def test_only_what_can_be_waited_for_is_waited_for(env: BusEnv) -> None:
    """A pause names assignments and a deadline, and its members; anything else is refused."""
    async with env.buses("user", "lead", "web") as (user, lead, _):
        task = await opened(user, participants=["lead"])
        for state in (ConversationState.PAUSED, ConversationState.SYNC_ASSIGNMENT):
            with pytest.raises(InvalidTransitionError, match="names the assignments"):
                await lead.threads.change_state(task, MAIN_THREAD, state)
        with pytest.raises(InvalidTransitionError, match="no triggers"):
            await lead.threads.change_state(
                task,
                MAIN_THREAD,
                ConversationState.DISCUSSION,
                triggers=[new_event_id()],
                deadline_at=time.time_ns() + 10**12,
            )
        with pytest.raises(InvalidTransitionError, match="0 jobs"):
            await lead.conversations.assign(task, MAIN_THREAD, [])
        with pytest.raises(InvalidTransitionError, match="pause of 0"):
            await lead.conversations.assign(task, MAIN_THREAD, JOBS, timeout=timedelta(0))
        with pytest.raises(NotAParticipantError):
            await lead.conversations.assign(task, MAIN_THREAD, JOBS[:1])

        assert len(await events_of(user, task)) == 1


async def test_an_interrupted_assignment_is_completed(env: BusEnv) -> None:
    """Said again under the same id, the move and the work stand once; what lacked is added."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, *_):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        move = new_event_id()
        first = await lead.conversations.assign(task, thread, JOBS[:2], event_id=move)
        again = await lead.conversations.assign(task, thread, JOBS, event_id=move)
        log = await events_of(user, task)

    assert again.assignments == first.assignments
    assert sum(isinstance(event.data, AssignmentMade) for event in log) == 2
    assert count_of(log, ThreadStateChanged) == 1


def count_of(log: list[Event], kind: type) -> int:
    """Count the events of a kind."""
    return sum(isinstance(event.data, kind) for event in log)


async def test_turns_end_in_the_conclusion(env: BusEnv) -> None:
    """The message that uses up the turns is followed by the conclusion; others fall silent."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, coder):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task, max_turns=3)
        await lead.send(task, thread, "One.", mentions=["web"])
        await web.conversations.hand_on(task, thread, ["coder"])
        assert (await user.threads.state(task, thread)).conversation == "discussion"
        await coder.send(task, thread, "Three.", mentions=["web"])
        state = await user.threads.state(task, thread)
        with pytest.raises(InvalidTransitionError, match="all 3 turns are used"):
            await web.send(task, thread, "Four.")
        with pytest.raises(InvalidTransitionError, match="concludes"):
            await web.conversations.hand_on(task, thread, ["lead"])
        await lead.send(task, thread, "The last word.")
        await lead.conversations.conclude(task, thread, "It is 3.")
        log = await events_of(user, task)

    assert (state.conversation, state.next_speakers) == (ConversationState.CONCLUSION, ("lead",))
    (conclusion,) = [e for e in log if getattr(e.data, "state", "") == "conclusion"]
    assert (conclusion.sender, conclusion.mentions) == ("coder", ("lead",))


async def test_a_writer_that_died_before_the_conclusion_is_made_up_for(env: BusEnv) -> None:
    """Where the last message stands without the conclusion, the next writer makes it first."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, _):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task, max_turns=2)
        await web.send(task, thread, "One.")
        # As a writer of another language does, which knows nothing of turns.
        raw = make_event(
            MessagePosted(parts=(TextPart("Two."),)), task=task, thread=thread, sender=web.name
        )
        async with env.backend() as backend:
            await write_raw(backend, raw.subject, encode_event(raw))
        with pytest.raises(InvalidTransitionError, match="all 2 turns"):
            await web.send(task, thread, "Three.")

        assert await moves(user, task) == ["conclusion"]


async def test_a_team_keeps_its_limits(env: BusEnv) -> None:
    """Members and depth are limits of the thread; who goes over one is told what is possible."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, _):
        task = await opened(user, participants=["lead", "web", "coder"])
        with pytest.raises(TeamLimitError, match="3 members and 2"):
            await team(lead, task, max_members=2)
        thread = await team(lead, task, max_members=3, max_depth=1)
        with pytest.raises(TeamLimitError, match="choose fewer"):
            await lead.threads.add(task, thread, "user")
        nested = (await web.threads.open(task, "Nested", parent=thread)).event.thread
        with pytest.raises(TeamLimitError, match="without a team") as refused:
            await web.threads.open(task, "Too deep", parent=nested)
        with pytest.raises(TeamLimitError):
            await web.threads.open(task, "Deep at once", parent=thread, max_depth=1)
        state = await user.threads.state(task, nested)

    assert state.max_depth == 0
    assert (refused.value.kind, refused.value.limit) == ("depth", 0)


@pytest.mark.parametrize("mode", ["pause", "async"])
async def test_a_conclusion_goes_up_as_the_result(env: BusEnv, mode: str) -> None:
    """The thread that was opened for an assignment finishes it when it concludes, once."""
    async with env.buses("user", "lead", "web", "coder") as (user, lead, web, _):
        task = await opened(user, participants=["lead", "web", "coder"])
        thread = await team(lead, task)
        if mode == "pause":
            given = await lead.conversations.assign(task, thread, JOBS[:1])
            (assignment,) = given.assignments
        else:
            made = await lead.append(
                AssignmentMade(
                    assignee="web", parts=(TextPart("look"),), mode=AssignmentMode.ASYNC
                ),
                task=task,
                thread=thread,
                mentions=["web"],
            )
            assignment = made.event.id
        nested = await web.threads.open(
            task, "Nested", participants=["coder"], parent=thread, assignment=assignment
        )
        close = new_event_id()
        results = [
            await web.conversations.conclude(task, nested.event.thread, "It is 42.", event_id=close)
            for _ in range(2)
        ]
        with pytest.raises(ThreadClosedError):
            await web.conversations.conclude(task, nested.event.thread, "It is 43.")
        with pytest.raises(InvalidTransitionError, match="submit an answer"):
            await web.conversations.conclude(task, MAIN_THREAD, "no")
        found = await soon(user.waits.for_results(task, [assignment]))
        log = await events_of(user, task)

    assert found[assignment].text == "It is 42."
    assert results[0].event.id == results[1].event.id
    assert count_of(log, AssignmentFinished) == 1
    assert results[0].event.thread == thread
    assert results[0].event.mentions == (() if mode == "pause" else ("lead",))
