"""What a fork consists of, and who it wakes, from a log alone and on the twin in memory."""

from __future__ import annotations

import pytest

from tests.support.bus_env import soon
from tests.support.runs import revenue_run
from tests.support.story import MS, START, TASK, Story
from threadbus.bus import InvalidTransitionError, fold_task
from threadbus.bus.testing import connect_in_memory
from threadbus.replay import ForkError, LogItem, fold
from threadbus.replay.findings import Analyser
from threadbus.replay.forking import ForkPlan, plan_fork, write_fork
from threadbus.replay.verifying import Verifier
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFinished,
    AssignmentMade,
    ContextUsed,
    EventData,
    EventId,
    HandlingStarted,
    Recorded,
    Rejected,
    TaskForked,
    TaskId,
    TaskOpened,
    TextPart,
    Wake,
    derive_event_id,
    encode_event,
    make_event,
)

FORK = TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a99")
LATER = START + 3_600_000 * MS
RUN = revenue_run()


def place(kind: type[EventData], number: int = 0) -> int:
    """Return the sequence of an event of the revenue run."""
    return [item.seq for item in RUN.log if isinstance(item.event.data, kind)][number]


def planned(entries: list[LogItem], seq: int, edit: str = "") -> ForkPlan:
    """Plan a fork an hour later; whatever it is, it must be a sound log."""
    plan = plan_fork(entries, seq, FORK, now=LATER, edit=edit)
    verifier = Verifier()
    for number, event in enumerate((*plan.copies, plan.last), 1):
        body = encode_event(event)
        verifier.take(Recorded(number, event, LATER + number, body))
    report = verifier.finish()
    assert (report.violations, report.problems) == (0, [])
    return plan


def test_a_fork_at_every_entry_is_a_sound_log() -> None:
    """And its fold is that of the origin up to there, but for who and when."""
    for item in RUN.log:
        if item.seq >= place(AnswerSubmitted) + 3:
            with pytest.raises(ForkError, match="had ended as completed"):
                plan_fork(RUN.log, item.seq, FORK, now=LATER)
            continue
        plan = planned(list(RUN.log), item.seq)
        log = [Recorded(n, e, LATER + n) for n, e in enumerate((*plan.copies, plan.last), 1)]
        then = fold_task(TASK, [one for one in RUN.log if one.seq <= item.seq])
        now = fold_task(FORK, log)
        assert (now.status, now.tokens_used) == (then.status, then.tokens_used)
        assert len(now.requests) == len(then.requests)
        for name, thread in then.threads.items():
            assert set(now.threads[name].participants) == set(thread.participants)
            assert now.threads[name].is_open == thread.is_open
        assert fold(log).duration_ns <= fold(RUN.log).duration_ns


def test_who_had_not_settled_a_mention_is_woken() -> None:
    """The copies of what was open are named; what was done, and people, are left alone."""
    plan = planned(list(RUN.log), place(AssignmentMade, 1))
    copies = {event.id: event for event in plan.copies}

    assert [wake.agent for wake in plan.wakes] == ["planner", "document", "coder"]
    assert [type(copies[EventId(wake.event)].data) for wake in plan.wakes] == [
        *(TaskOpened, AssignmentMade, AssignmentMade)
    ]
    assert plan.last.mentions == ("planner", "document", "coder")
    later = planned(list(RUN.log), place(AssignmentFinished, 1))
    assert [wake.agent for wake in later.wakes] == ["planner", "coder", "planner"]


def test_a_copy_of_a_copy_keeps_its_place_in_time() -> None:
    """The fork of a fork has the durations of the first run, and no clock that is wrong."""
    first = planned(list(RUN.log), place(AssignmentFinished))
    log = [Recorded(n, event, LATER + n) for n, event in enumerate((*first.copies, first.last), 1)]
    second = plan_fork(log, len(log), TaskId(f"{FORK[:-1]}0"), now=2 * LATER - START)
    again = [
        Recorded(n, event, 2 * LATER - START + n)
        for n, event in enumerate((*second.copies, second.last), 1)
    ]
    stood, wanted = (
        [item.event.copy_of.at for item in run if item.event.copy_of is not None]
        for run in (again, log)
    )

    assert len(stood) > 5
    assert [at - stood[0] for at in stood] == [at - wanted[0] for at in wanted]
    analyser = Analyser()
    for item in again:
        analyser.apply(item)
    found = analyser.finish(fold(again)).findings
    assert [one for one in found if one.detector == "S2"] == []


def test_references_point_to_copies() -> None:
    """Causes, assignments and votes stay inside the fork; ids are new, and differ by fork."""
    plan = planned(list(RUN.log), place(AnswerSubmitted))
    ids = {event.id for event in plan.copies}
    old = {item.event.id for item in RUN.log}

    assert not ids & old
    for event in plan.copies:
        assert event.cause is None or event.cause in ids
        for name in ("assignment", "proposal", "request", "of", "answer"):
            value = getattr(event.data, name, None)
            assert value is None or value in ids
    other = plan_fork(RUN.log, place(AnswerSubmitted), TaskId(FORK[:-1] + "8"), now=LATER)
    assert not ids & {event.id for event in other.copies}
    again = plan_fork(RUN.log, place(AnswerSubmitted), FORK, now=LATER + 5)
    assert [event.id for event in again.copies] == [event.id for event in plan.copies]


def test_an_agent_finds_its_own_work_again() -> None:
    """What it derived from the mention is derived from the copy of the mention."""
    story = Story()
    asked = story.ask("planner")
    planner = AgentName("planner")
    places: tuple[int | str, ...] = (0, 1, 70, "reply")
    for at, word in enumerate(places, 1):
        story.say("planner", f"step {at}", cause=asked)
        item = story.log[-1]
        event = make_event(
            item.event.data,
            task=TASK,
            thread=item.event.thread,
            sender=planner,
            cause=asked,
            event_id=derive_event_id(asked, planner, word),
            at=item.event.at,
        )
        story.log[-1] = Recorded(item.seq, event, item.stored_at)
    plan = planned(list(story.log), story.log[-1].seq)
    opening, *said = plan.copies
    found = [event.id for event in said]

    assert found[0] == derive_event_id(opening.id, planner, 0)
    assert found[1] == derive_event_id(opening.id, planner, 1)
    assert found[2] not in {derive_event_id(opening.id, planner, at) for at in range(100)}
    assert found[3] == derive_event_id(opening.id, planner, "reply")


def test_deadlines_are_put_off() -> None:
    """By the time that has gone by; at least to a minute from now."""
    story = Story()
    story.add(
        "user", TaskOpened(title="T", deadline_at=START + 600_000 * MS), mentions=("planner",)
    )
    story.add(
        "planner",
        AssignmentMade(assignee="user", parts=(TextPart("x"),), deadline_at=START - 1),
    )
    opening, made = planned(list(story.log), story.log[-1].seq).copies
    cut_at = story.log[-1].stored_at

    assert isinstance(opening.data, TaskOpened)
    assert opening.data.deadline_at == START + 600_000 * MS + (LATER - cut_at)
    assert isinstance(made.data, AssignmentMade)
    assert made.data.deadline_at == LATER + 60_000 * MS


def test_what_does_not_count_is_left_out_and_said() -> None:
    """Garbage, strangers, repeated ids, and what came after the end of a thread."""
    story = Story()
    asked = story.ask("planner")
    story.say("mallory", "let me in")
    story.say("planner", "hello", cause=asked)
    log: list[LogItem] = [*story.log, Rejected(20, "bus.x", "garbage")]
    log += [Recorded(21, story.log[-1].event), Recorded(22, story.log[2].event)]
    plan = planned(log, 22)

    assert [event.sender for event in plan.copies] == ["user", "planner"]
    assert plan.left_out == {
        "event from outside its thread, left out": 1,
        "entry that is no event, left out": 1,
        "event that was there before, left out": 2,
    }
    assert "1: event from outside its thread, left out" in plan.notes


def test_a_turn_that_begins_anew_has_not_begun() -> None:
    """The start that was on record is not copied, so that it counts as no attempt."""
    story = Story()
    asked = story.ask("planner")
    story.add("planner", HandlingStarted(), cause=asked)
    plan = planned(list(story.log), story.log[-1].seq)
    assert [event.type for event in plan.copies] == ["task.opened"]
    story.end("planner", asked, worked_ms=5)
    plan = planned(list(story.log), story.log[-1].seq)
    assert [event.type for event in plan.copies][1:] == ["handling.started", "handling.ended"]
    assert plan.wakes == ()


def test_the_last_thing_asked_can_be_edited() -> None:
    """Only that says something else, and its origin says so."""
    plan = planned(list(RUN.log), place(AssignmentMade, 1), "Sum the other column")
    edited = [event for event in plan.copies if event.copy_of and event.copy_of.edited]
    assert [event.id for event in edited] == [plan.copies[-1].id]
    assert isinstance(edited[0].data, AssignmentMade)
    assert edited[0].data.parts == (TextPart("Sum the other column"),)
    assert plan.origin.edit == "Sum the other column"


def test_too_much_that_is_open_is_refused() -> None:
    """One event wakes so many agents and no more; the message says how many there were."""
    story = Story()
    for number in range(0, 32, 16):
        names = tuple(f"a{at}" for at in range(number, number + 16))
        if not number:
            everybody = tuple(f"a{at}" for at in range(32))
            story.add("user", TaskOpened(title="T", participants=everybody), mentions=names)
        else:
            story.say("user", "you too", to=names)
    with pytest.raises(ForkError, match="32 mentions of 32 agents were open"):
        plan_fork(story.log, story.log[-1].seq, FORK, now=LATER)
    with pytest.raises(ForkError, match="was not opened by then"):
        plan_fork(story.log, 1, FORK, now=LATER)


async def test_the_inbox_gives_what_the_fork_names() -> None:
    """The copy itself, once for each mention, settled when all are; only copies can be named."""
    story = Story()
    asked = story.ask("web")
    story.say("user", "and this", to=("web",))
    story.add("web", ContextUsed(up_to_seq=3, events=1), cause=asked)
    plan = plan_fork(story.log, story.log[-1].seq, FORK, now=LATER)
    async with connect_in_memory("user") as user:
        web = user.acting_as("web")
        async with web.inbox() as inbox:
            written = await write_fork(user, plan)
            first, second = await soon(inbox.next()), await soon(inbox.next())
            assert [first.event.id, second.event.id] == [plan.copies[0].id, plan.copies[1].id]
            assert first.redelivered
            assert first.seq < second.seq < written.seq
            assert (await user.pending_mentions())["web"] == 1
            await first.ack()
            assert (await user.pending_mentions())["web"] == 1
            await second.ack()
            assert (await user.pending_mentions()).get("web", 0) == 0
            used = [e async for e in user.read(FORK) if isinstance(e, Recorded)][2].event.data
            assert isinstance(used, ContextUsed)
            assert used.up_to_seq == first.seq
            own = await user.send(FORK, plan.copies[0].thread, "new", mentions=["web"])
            await (await soon(inbox.next())).ack()
            forged = make_event(
                TaskForked(origin=plan.origin, wakes=(Wake(agent="web", event=own.event.id),)),
                task=FORK,
                thread=own.event.thread,
                sender=AgentName("user"),
                mentions=(AgentName("web"),),
            )
            await user.forks.append(forged)
            marker = await user.send(FORK, own.event.thread, "marker", mentions=["web"])
            assert (await soon(inbox.next())).event.id == marker.event.id
        assert (await write_fork(user, plan)).was_whole
        with pytest.raises(InvalidTransitionError, match="has no origin"):
            await user.forks.append(own.event)
