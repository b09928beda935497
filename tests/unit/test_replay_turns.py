"""A turn is one mention and what came of it."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.runs import revenue_run
from tests.support.story import MS, NUMBERS, START, Story, turns
from threadbus.replay import (
    FailureStep,
    ModelStep,
    SaidStep,
    TimelineFold,
    ToolStep,
    TurnOutcome,
    fold,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ErrorInfo,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MentionStored,
    Recorded,
    TaskClosed,
    TaskStatus,
    TextPart,
)

PLANNER = AgentName("planner")
CODER = AgentName("coder")
USER = AgentName("user")


def test_a_turn_is_one_mention_with_all_that_came_of_it() -> None:
    """Who was woken by whom, attempts, times, steps in order, and the end."""
    timeline = fold(revenue_run().log)
    turn = turns(timeline, "coder")[0]

    assert (turn.woken_by, turn.outcome, turn.attempt) == ("planner", TurnOutcome.REPLIED, 2)
    assert turn.worked_ns == 931 * MS
    kinds = [type(step) for step in turn.steps]
    assert kinds == [ToolStep, FailureStep, ModelStep, ToolStep, SaidStep, SaidStep]
    failed, failure = turn.steps[:2]
    assert isinstance(failed, ToolStep)
    assert failed.error is not None
    assert isinstance(failure, FailureStep)
    assert failure.retry_in_ns == 2000 * MS
    assert (turn.input_tokens, turn.output_tokens) == (700, 61)


def test_a_step_in_another_thread_is_in_both_places() -> None:
    """The agent's turn has it, and the thread that it happened in has it too."""
    timeline = fold(revenue_run().log)
    elsewhere = [step for step in turns(timeline, "planner")[1].steps if step.thread == NUMBERS]

    assert len(elsewhere) == 6
    entries = timeline.threads[NUMBERS].entries
    assert [step for step in entries if step in elsewhere] == elsewhere


def test_a_mention_that_nobody_handled_is_open() -> None:
    """It is listed, with whether the agent was running at all."""
    story = Story()
    asked = story.ask("planner", "coder")
    story.add("user", MentionStored(agents=("coder",)), cause=asked)
    story.say("planner", "It is so.", cause=asked, after_ms=5)
    timeline = fold(story.log)

    (open_turn,) = timeline.open_turns()
    assert (open_turn.agent, open_turn.was_stored, open_turn.has_begun) == ("coder", True, False)
    assert open_turn.asked == "What?"


def test_a_reply_without_any_receipt_is_a_turn() -> None:
    """An agent in another language need not say more than its reply."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "It is so.", cause=asked, after_ms=70)
    (turn,) = turns(fold(story.log), "planner")

    assert turn.outcome is TurnOutcome.REPLIED
    assert turn.replied_at is not None
    assert turn.replied_at - turn.asked_at == 70 * MS
    assert (turn.waited_ns, turn.worked_ns) == (None, None)


def test_asking_somebody_else_is_no_reply() -> None:
    """A turn in which the agent asked another one is open until it answers."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "Could you?", to=("coder",), cause=asked)
    (turn,) = turns(fold(story.log), "planner")

    assert turn.outcome is TurnOutcome.OPEN
    assert turn.has_begun


def test_what_follows_from_a_reply_belongs_to_the_turn_that_asked() -> None:
    """An agent that waits for a reply and then acts on it is still in its first turn."""
    story = Story()
    asked = story.ask("planner")
    question = story.say("planner", "Could you?", to=("coder",), cause=asked, awaited=True)
    reply = story.say("coder", "Yes.", cause=question)
    story.say("planner", "Thank you.", cause=reply)
    (turn,) = turns(fold(story.log), "planner")

    texts = [step.text for step in turn.steps if isinstance(step, SaidStep)]
    assert texts == ["Could you?", "Thank you."]


def test_the_close_belongs_to_the_turn_of_the_answer() -> None:
    """The event that closes a task need not name a cause: it names the answer."""
    story = Story()
    asked = story.ask("planner")
    answer = story.add("planner", AnswerSubmitted(parts=(TextPart("42"),)), cause=asked)
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED, answer=answer))
    timeline = fold(story.log)

    (turn,) = turns(timeline, "planner")
    assert [step.seq for step in turn.steps] == [6, 9]
    assert timeline.answer is not None
    assert timeline.answer.text == "42"


def test_a_handler_that_ends_without_a_word_has_finished() -> None:
    """Saying nothing may be all that was needed; it is told apart from a reply."""
    story = Story()
    asked = story.ask("planner")
    story.end("planner", asked, worked_ms=5)
    (turn,) = turns(fold(story.log), "planner")

    assert turn.outcome is TurnOutcome.FINISHED


def test_a_mention_given_up_is_told_to_the_asker() -> None:
    """Failed attempts, then the end; the asker that is mentioned has a turn of its own."""
    story = Story()
    asked = story.ask("planner")
    work = story.say("planner", "Please", to=("coder",), cause=asked)
    error = ErrorInfo("ValueError", "no")
    story.add("coder", HandlingFailed(error=error, retry_in_ns=MS), cause=work)
    story.add("coder", HandlingFailed(error=error, attempt=2), cause=work)
    story.add(
        "coder", MentionDeadLettered(error=error, attempts=2), cause=work, mentions=("planner",)
    )
    timeline = fold(story.log)

    (turn,) = turns(timeline, "coder")
    assert (turn.outcome, turn.attempt) == (TurnOutcome.DEAD_LETTERED, 2)
    assert [step.gave_up for step in turn.steps if isinstance(step, FailureStep)] == [
        False,
        False,
        True,
    ]
    assert turns(timeline, "planner")[1].woken_by == "coder"
    assert (timeline.totals.failures, timeline.totals.dead_letters) == (2, 1)


def test_a_failure_without_a_mention_is_not_lost() -> None:
    """A mention that was no event at all is reported without a cause, and shown in its thread."""
    story = Story()
    story.add("coder", MentionDeadLettered(error=ErrorInfo("malformed_event", "not JSON")))
    timeline = fold(story.log)

    (entry,) = timeline.threads[MAIN_THREAD].entries
    assert isinstance(entry, FailureStep)


def test_an_attempt_that_runs_again_is_no_failure() -> None:
    """A turn whose last attempt failed is open again once the next one has started."""
    story = Story()
    asked = story.ask("planner")
    error = ErrorInfo("ValueError", "no")
    story.add("planner", HandlingFailed(error=error, retry_in_ns=MS), cause=asked)
    folding = TimelineFold()
    folding.apply_all(story.log)
    assert [turn.outcome for turn in turns(folding.timeline, "planner")] == ["failed"]

    story.add("planner", HandlingStarted(attempt=2), cause=asked)
    folding.apply(story.log[-1])

    assert [turn.outcome for turn in turns(folding.timeline, "planner")] == ["open"]
    assert folding.running == {(asked, PLANNER)}


@pytest.mark.parametrize("skew_ms", [-60_000, -5, 0, 5, 60_000])
def test_the_wait_does_not_depend_on_the_agents_clock(skew_ms: int) -> None:
    """From the mention to the start of the work, whatever the agent's clock says."""
    story = Story()
    asked = story.ask("planner")
    story.now += 1_000 * MS
    agent = story.now + skew_ms * MS
    ended = HandlingEnded(received_at=agent - 200 * MS, started_at=agent - 100 * MS, ended_at=agent)
    story.add("planner", ended, cause=asked)
    item = story.log.pop()
    event = msgspec.structs.replace(item.event, at=agent)
    (turn,) = turns(fold([*story.log, Recorded(item.seq, event, story.now + MS)]), "planner")

    assert turn.waited_ns == 900 * MS
    assert turn.worked_ns == 100 * MS


def test_durations_are_never_negative() -> None:
    """Clocks that run backwards give zero, not a negative time."""
    story = Story()
    asked = story.ask("planner")
    late = START + 10_000 * MS
    story.add(
        "planner",
        HandlingEnded(received_at=late, started_at=late - MS, ended_at=START),
        cause=asked,
    )
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED))
    closing = story.log.pop()
    before = Recorded(closing.seq, closing.event, START - 99 * MS)
    timeline = fold([*story.log, before])
    (turn,) = turns(timeline, "planner")

    assert turn.worked_ns == 0
    assert (turn.waited_ns or 0) >= 0
    assert timeline.duration_ns == 0


def test_a_mention_that_comes_late_completes_its_turn() -> None:
    """Events out of order end up in the turn that they belong to."""
    story = Story()
    asked = story.ask("planner")
    story.model("planner", asked)
    story.end("planner", asked, worked_ms=10)
    timeline = fold([*story.log[1:], story.log[0]])

    (turn,) = turns(timeline, "planner")
    assert (turn.woken_by, turn.asked) == ("user", "What?")
    assert len(turn.steps) == 1


def test_a_tool_that_never_returned_is_open() -> None:
    """A call and its return are one step; a call alone says that it is not back."""
    story = Story()
    asked = story.ask("planner")
    story.tool("planner", asked, "search", {"q": "x"}, "found")
    story.tool("planner", asked, "search", {"q": "y"}, "found")
    del story.log[-1]
    (turn,) = turns(fold(story.log), "planner")

    tools = [step for step in turn.steps if isinstance(step, ToolStep)]
    assert [(tool.returned, tool.arguments) for tool in tools] == [
        (True, 'q="x"'),
        (False, 'q="y"'),
    ]


def test_whoever_only_asks_has_no_unanswered_mentions() -> None:
    """The person who opened the task is told things, but owes nobody an answer."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "Done.", to=("user",), cause=asked)
    timeline = fold(story.log)

    assert timeline.is_outside(USER)
    assert not timeline.is_outside(PLANNER)
    assert timeline.open_turns() == []
