"""The fold tells what happened, from whole logs and from what is left of them."""

from __future__ import annotations

import msgspec

from tests.support.runs import revenue_run
from tests.support.story import NUMBERS, TASK, Story, turns
from threadbus.replay import (
    SaidStep,
    Timeline,
    TimelineFold,
    TurnOutcome,
    fold,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    EventClass,
    HandlingEnded,
    InputRequested,
    OpaqueData,
    PlanProposed,
    PlanRevised,
    PlanStep,
    Rejected,
    TaskClosed,
    TaskId,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    ThreadId,
    ThreadOpened,
    ToolReturned,
)

PLANNER = AgentName("planner")
CODER = AgentName("coder")
USER = AgentName("user")


def test_a_whole_run_adds_up() -> None:
    """Title, status, times, answer and totals are those of the log."""
    timeline = fold(revenue_run().log)

    assert timeline.title == "Which revenue figure is right?"
    assert (timeline.status, timeline.opened_by, timeline.closed_by) == (
        "completed",
        "user",
        "planner",
    )
    assert timeline.answer is not None
    assert timeline.answer.text.startswith("4,120,000, the figure")
    assert timeline.answer.submitted_by == "planner"
    totals = timeline.totals
    assert (totals.events, totals.turns, totals.messages) == (41, 6, 2)
    assert (totals.model_calls, totals.input_tokens, totals.output_tokens) == (5, 4812, 343)
    assert (totals.tool_calls, totals.tool_errors, totals.failures) == (3, 1, 1)
    assert totals.input_tokens == sum(agent.input_tokens for agent in timeline.agents.values())
    assert [agent.agent for agent in timeline.working_agents()] == ["planner", "document", "coder"]
    assert timeline.open_turns() == []


def test_threads_hang_below_the_one_they_grew_from() -> None:
    """A thread has its parent, participants, outcome and summary."""
    story = fold(revenue_run().log).threads[NUMBERS]

    assert (story.parent, story.title, story.opened_by) == (MAIN_THREAD, "Check numbers", "planner")
    assert story.participants == {"planner": True, "document": True, "coder": True}
    assert (story.outcome, story.summary) == ("concluded", "returns explain it")


def test_requests_assignments_votes_and_artifacts_are_on_record() -> None:
    """Each has a record with where it stands."""
    timeline = fold(revenue_run().log)

    request = next(iter(timeline.requests.values()))
    assert (request.asked_by, request.answered_by, request.answer) == (
        "planner",
        "user",
        "After returns.",
    )
    assert [record.state for record in timeline.assignments.values()] == ["finished", "finished"]
    proposal = next(iter(timeline.proposals.values()))
    assert (proposal.votes, proposal.result) == ({"coder": "approve"}, "reached")
    artifact = next(iter(timeline.artifacts.values()))
    assert (artifact.name, artifact.size, artifact.sha256) == ("totals.csv", 1234, "ab" * 32)


def test_an_id_counts_once() -> None:
    """An event that is in the log twice changes nothing but the count of repetitions."""
    log = revenue_run().log
    once = fold(log)
    twice = fold([item for item in log for _ in range(2)])

    assert twice.totals.duplicates == len(log)
    twice.totals.duplicates = 0
    assert msgspec.to_builtins(twice) == msgspec.to_builtins(once)


def test_events_of_another_task_are_left_out() -> None:
    """A log that was mixed up does not mix the stories."""
    other = Story(task=TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a72"))
    other.ask("planner")
    timeline = fold([*revenue_run().log, *other.log])

    assert timeline.totals.foreign == 1
    assert timeline.task == TASK


def test_what_cannot_be_read_is_reported() -> None:
    """The reasons of the first are kept, and all are counted."""
    log = revenue_run().log
    rejected = [Rejected(1000 + n, "bus.x", f"reason {n}") for n in range(250)]
    timeline = fold([*log, *rejected])

    assert timeline.totals.unreadable == 250
    assert len(timeline.unreadable) == 100
    assert timeline.unreadable[0].reason == "reason 0"
    assert timeline.totals.events == len(log)


def test_unknown_types_are_counted_and_told() -> None:
    """An event of a newer version stands in the story as what it is, and in its turn."""
    story = Story()
    asked = story.ask("planner")
    raw = OpaqueData(raw=b'{"mood":"good"}', event_class=EventClass.OBS)
    story.add("planner", raw, cause=asked, type_name="agent.pondered")
    timeline = fold(story.log)

    assert timeline.unknown_types == {"agent.pondered": 1}
    step = turns(timeline, "planner")[0].steps[0]
    assert isinstance(step, SaidStep)
    assert step.text == '{"mood":"good"}'


def test_times_beyond_all_calendars_are_cut() -> None:
    """What an event claims does not make sums or JSON overflow."""
    story = Story()
    asked = story.ask("planner")
    huge = 2**63 - 1
    for _ in range(3):
        ended = HandlingEnded(received_at=0, started_at=0, ended_at=huge)
        story.add("planner", ended, cause=asked)
        story.add("planner", ToolReturned(call_id="a", tool="t", duration_ns=huge), cause=asked)
    timeline = fold(story.log)

    assert msgspec.json.decode(msgspec.json.encode(timeline), type=Timeline) == timeline


def test_part_of_a_log_makes_part_of_a_story() -> None:
    """Without its opening a run has no title, yet turns, steps and replies."""
    timeline = fold(revenue_run().log[8:20])

    assert (timeline.title, timeline.status, timeline.opened_by) == ("", "unknown", None)
    turn = turns(timeline, "document")[0]
    assert (turn.woken_by, turn.asked_at, turn.outcome) == (None, 0, TurnOutcome.REPLIED)


def test_a_question_to_the_person_sets_the_status() -> None:
    """The task needs input until it is given, and a closed task stays closed."""
    story = Story()
    asked = story.ask("planner")
    folding = TimelineFold()
    story.add("planner", InputRequested(parts=(TextPart("Which?"),)), cause=asked)
    folding.apply_all(story.log)
    assert folding.timeline.status == "input_required"

    story.add("planner", TaskClosed(outcome=TaskStatus.CANCELLED))
    story.add("planner", TaskStatusChanged(status=TaskStatus.WORKING))
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED))
    folding.apply_all(story.log[2:])

    assert folding.timeline.status == "cancelled"
    assert folding.timeline.answer is None


def test_a_thread_whose_opening_is_missing_hangs_below_main() -> None:
    """It is shown, and later its opening fills in what was not known."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "Here.", thread="side-1", cause=asked)
    folding = TimelineFold()
    folding.apply_all(story.log)
    side = folding.timeline.threads[ThreadId("side-1")]
    assert (side.parent, side.opened_by) == (MAIN_THREAD, None)

    story.add("coder", ThreadOpened(title="Side", parent="other-2"), thread="side-1")
    folding.apply(story.log[-1])

    assert (side.parent, side.title, side.opened_by) == ("other-2", "Side", CODER)


def test_long_texts_are_cut_and_say_how_long_they_were() -> None:
    """A story keeps the start of what was said, and more of the answer."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "x" * 5_000, cause=asked)
    story.add("planner", AnswerSubmitted(parts=(TextPart("y" * 50_000),)), cause=asked)
    timeline = fold(story.log)

    step = turns(timeline, "planner")[0].steps[0]
    assert isinstance(step, SaidStep)
    assert (len(step.text), step.chars) == (300, 5_000)
    assert timeline.answer is not None
    assert (len(timeline.answer.text), timeline.answer.chars) == (20_000, 50_000)


def test_only_the_first_answers_are_kept_in_full() -> None:
    """A log of very many answers does not fill the memory with them."""
    story = Story()
    asked = story.ask("planner")
    for _ in range(70):
        story.add("planner", AnswerSubmitted(parts=(TextPart("y" * 1_000),)), cause=asked)
    lengths = [len(answer.text) for answer in fold(story.log).answers.values()]

    assert lengths == [1_000] * 64 + [300] * 6


def test_each_version_of_a_plan_is_kept() -> None:
    """A revised plan is the next version of its thread's, and says which it replaces."""
    story = Story()
    asked = story.ask("planner")
    first = story.add("planner", PlanProposed(steps=(PlanStep("Read"),)), cause=asked)
    second = PlanRevised(
        replaces=first, steps=(PlanStep("Read", "document"), PlanStep("Sum")), reasons=("more",)
    )
    story.add("critic", second, cause=asked)

    plans = list(fold(story.log).plans.values())

    assert [(plan.version, plan.made_by, plan.replaces) for plan in plans] == [
        (1, "planner", None),
        (2, "critic", first),
    ]
    assert [step.title for step in plans[1].steps] == ["Read", "Sum"]
    assert plans[1].reasons == ("more",)
