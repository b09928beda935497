"""A run as of one of its entries: what stood is what the events up to there say, and no more."""

from __future__ import annotations

import io

import msgspec
import pytest

from tests.support.runs import harmful, revenue_run, troubled_run
from tests.support.story import NUMBERS, Story
from threadbus.bus import fold_task
from threadbus.replay import PointError
from threadbus.replay.asof import AsOf, state_at
from threadbus.replay.asof_text import write_state
from threadbus.replay.paint import Painter
from threadbus.replay.point import find_point
from threadbus.schemas import (
    AssignmentMade,
    EventData,
    EventId,
    InputGiven,
    InputRequested,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    Recorded,
    TaskClosed,
    ThreadClosed,
    VoteCast,
)

RUN = revenue_run()


def after(kind: type[EventData], number: int = 0, *, before: bool = False) -> AsOf:
    """Return the state right after (or before) the first event of a kind."""
    places = [index for index, item in enumerate(RUN.log) if isinstance(item.event.data, kind)]
    return state_at(RUN.log, RUN.log[places[number] - before].seq)


def lines_of(now: AsOf) -> str:
    """Return what a person gets."""
    out = io.StringIO()
    write_state(Painter(out, width=None, has_color=False, is_ascii=False), now)
    return out.getvalue()


def test_a_plan_stands_from_its_event_on() -> None:
    """Before it there is none; a revised one takes its place."""
    assert after(PlanProposed, before=True).plans == []
    assert [plan.version for plan in after(PlanProposed).plans] == [1]
    story = Story()
    asked = story.ask("planner")
    first = story.add("planner", PlanProposed(steps=(PlanStep("a"),)), cause=asked)
    story.add("planner", PlanRevised(replaces=first, steps=(PlanStep("b"),)), cause=asked)
    (plan,) = state_at(story.log, story.log[-1].seq).plans

    assert (plan.version, [step.title for step in plan.steps]) == (2, ["b"])


def test_assignments_are_open_until_they_end() -> None:
    """Made, they are open and their agents have work; finished, they are not."""
    now = after(AssignmentMade, 1)
    assert [one.assignee for one in now.assignments] == ["document", "coder"]
    assert {work.agent for work in now.waiting} == {"document", "coder"}
    assert [work.agent for work in now.working] == ["planner"]
    assert state_at(RUN.log, RUN.log[-1].seq).assignments == []


def test_votes_so_far_are_told() -> None:
    """Who was asked, who has voted and how many are needed; a decided vote is not under way."""
    (ballot,) = after(ProposalMade).ballots
    assert (ballot.missing, ballot.needed, ballot.proposal.votes) == (("coder",), 1, {})
    (ballot,) = after(VoteCast).ballots
    assert (ballot.missing, ballot.proposal.votes) == ((), {"coder": "approve"})
    assert after(ThreadClosed).ballots == []


def test_questions_are_open_until_they_are_answered() -> None:
    """The status says so, too."""
    now = after(InputRequested)
    assert [one.asked_by for one in now.requests] == ["planner"]
    assert now.status == "input_required"
    now = after(InputGiven)
    assert (now.requests, now.status) == ([], "working")


def test_threads_are_as_the_guard_saw_them() -> None:
    """Participants, whether they are open, and the sequence of the last control event."""
    main, side = after(ThreadClosed, before=True).threads
    assert (main.thread, side.thread, side.is_open) == ("main", NUMBERS, True)
    assert side.participants == ("planner", "document", "coder")
    closed = after(ThreadClosed).threads[1]
    assert (closed.is_open, closed.outcome) == (False, "concluded")
    assert closed.last_ctl_seq > side.last_ctl_seq


def test_every_entry_agrees_with_the_fold_of_the_bus() -> None:
    """Status, tokens and threads at each entry are those of a reader that stopped there."""
    for index, item in enumerate(RUN.log):
        now = state_at(RUN.log, item.seq)
        state = fold_task(RUN.task, RUN.log[: index + 1])
        assert now.status == state.status
        assert now.tokens["counted"] == state.tokens_used
        assert (now.entry.number, now.entry.of) == (index + 1, len(RUN.log))
        assert now.counts["events"] == index + 1
    assert after(TaskClosed).status == "completed"


def test_what_agents_say_cannot_harm_a_terminal() -> None:
    """Escapes of every text are shown, not obeyed."""
    run = troubled_run()
    shown = [lines_of(state_at(run.log, item.seq)) for item in run.log]
    assert not any(harmful("")[0] in text for text in shown)
    assert "Working" in shown[-1]


def test_a_point_is_named_by_sequence_or_id() -> None:
    """Between two entries it is the one before; past the end, or ambiguous, there is none."""
    third = RUN.log[2]
    assert find_point(RUN.log, str(third.seq)) == third.seq
    assert find_point(RUN.log, f"{third.seq + 1}") == third.seq
    assert find_point(RUN.log, f"#{third.seq:,}") == third.seq
    assert find_point(RUN.log, third.event.id.upper()) == third.seq
    for wanted, reason in (
        ("2", "its entries are 3 to"),
        ("9999", "the run has none there"),
        ("main", "give a sequence"),
        ("f" * 32, "the run has none there"),
        ("", "give a sequence"),
    ):
        with pytest.raises(PointError, match=reason):
            find_point(RUN.log, wanted)
    assert find_point([third, msgspec.structs.replace(third, seq=99)], third.event.id) == third.seq
    alike = msgspec.structs.replace(third.event, id=EventId("0" * 12 + third.event.id[12:]))
    both = [third, Recorded(99, alike)]
    with pytest.raises(PointError, match="2 events of the run have ids that end so"):
        find_point(both, third.event.id[-20:])
