"""RA, PT and LB: work that is given away twice, without waiting, or past the one who has it."""

from __future__ import annotations

from tests.support.analysis import found
from tests.support.story import MS, Story
from threadbus.schemas import (
    AssignmentCancelled,
    AssignmentMode,
    AssignmentProgressed,
    ConversationState,
    ErrorInfo,
    EventId,
    HandlingStarted,
    MentionDeadLettered,
    MentionReceived,
    ThreadStateChanged,
)

WORK = "Sum the column revenue of sales.csv"
ASYNC = AssignmentMode.ASYNC


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_work_that_is_asked_for_again_while_it_is_open_is_a_repetition() -> None:
    """Of the same agent or of another one, in a later turn."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked, mode=ASYNC)
    again = story.assign("planner", "coder", f"{WORK}. ", first, mode=ASYNC, after_ms=3000)
    other = story.say("planner", WORK, to=("document",), cause=first, after_ms=3000)
    findings = found("RA", story)

    assert [(one.agent, one.evidence[0]) for one in findings] == [
        ("planner", again),
        ("planner", other),
    ]
    assert first in findings[0].evidence


def test_other_work_and_work_that_is_done_are_no_repetition() -> None:
    """Nor is the same for several agents at once."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked, mode=ASYNC)
    second = story.assign("planner", "document", WORK, asked, mode=ASYNC, after_ms=1)
    story.assign("planner", "coder", "Draw a chart of it", asked, mode=ASYNC)
    story.finish("document", second, "4,120,000", to=("planner",))
    done = story.finish("coder", first, "4,120,000", to=("planner",))
    story.assign("planner", "coder", WORK, done, mode=ASYNC, after_ms=5000)

    assert found("RA", story) == []


def test_talk_while_everything_waits_is_no_pause() -> None:
    """Two messages about nothing that is open, with what they cost."""
    story, asked = opened()
    work = story.assign("planner", "coder", WORK, asked, mode=ASYNC)
    story.say("planner", "Let us see what the coder finds.", cause=asked, after_ms=40)
    story.model("planner", asked, tokens=(100, 20))
    second = story.say("planner", "Any moment now.", cause=asked, after_ms=40)
    story.say("planner", "Still nothing.", cause=asked, after_ms=40)
    (finding,) = found("PT", story)

    assert finding.evidence == (second, work)
    assert "2 messages and 120 tokens" in finding.text


def test_one_message_a_result_and_other_work_are_a_pause() -> None:
    """What comes back ends the waiting; what concerns another asker is no talk."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked, mode=ASYNC)
    story.say("planner", "The coder is at it.", cause=asked)
    question = story.say("document", "Shall I begin?", to=("planner",))
    story.say("planner", "Please do.", cause=question)
    story.say("planner", "And hurry.", cause=question)
    done = story.finish("coder", first, "4,120,000", to=("planner",))
    story.say("planner", "So it is 4,120,000.", cause=done)
    story.say("planner", "That settles it.", cause=done)

    assert found("PT", story) == []


def test_passing_over_an_agent_that_works_is_a_bypass() -> None:
    """It had said that it was busy, and it delivers later."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    story.add("coder", MentionReceived(queue_depth=1, busy_with="page 2"), cause=first)
    second = story.assign("planner", "document", WORK, asked, after_ms=5000)
    story.finish("document", second, "4,120,000", after_ms=50)
    late = story.finish("coder", first, "4,120,000", after_ms=50)
    (finding,) = found("LB", story)

    assert finding.evidence == (second, first, late)
    assert "passes coder over and asks document" in finding.text


def test_taking_work_back_from_an_agent_that_works_is_a_bypass() -> None:
    """A cancel does not make it better."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    story.add("coder", HandlingStarted(), cause=first)
    story.add("planner", AssignmentCancelled(assignment=first), cause=asked, after_ms=4000)
    story.assign("planner", "document", WORK, asked, after_ms=10)
    story.add("coder", AssignmentProgressed(assignment=first, note="half"), cause=first)

    assert len(found("LB", story)) == 1


def test_asking_another_after_a_failure_is_a_failover() -> None:
    """The first one gave up, or gave no sign of life for long."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    error = ErrorInfo("ValueError", "no")
    story.add("coder", MentionDeadLettered(error=error, attempts=3), cause=first)
    story.assign("planner", "document", WORK, asked, after_ms=5000)
    dead = Story()
    asked = dead.open("planner", "coder", "document")
    first = dead.assign("planner", "coder", WORK, asked)
    dead.add("coder", HandlingStarted(), cause=first)
    dead.assign("planner", "document", WORK, asked, after_ms=90_000)

    assert found("LB", story) == []
    assert found("LB", dead) == []
    assert len(found("LB", dead, "LB.alive_s=120")) == 1


def test_asking_several_at_once_is_no_bypass() -> None:
    """The same question for two agents in one turn is meant so."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    second = story.assign("planner", "document", WORK, asked, after_ms=1)
    story.finish("document", second, "4,120,000")
    story.finish("coder", first, "4,120,000")

    assert found("LB", story) == []
    assert len(found("LB", story, "LB.fan_out_s=0")) == 1


def test_a_pause_that_is_declared_is_one() -> None:
    """A change of the conversation's state is no talk."""
    story, asked = opened()
    story.assign("planner", "coder", WORK, asked, mode=ASYNC)
    story.say("planner", "The coder is at it.", cause=asked)
    story.add("planner", ThreadStateChanged(state=ConversationState.PAUSED), cause=asked)

    assert found("PT", story) == []
    assert story.now > MS
