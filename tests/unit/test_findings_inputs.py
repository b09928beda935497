"""I1, I2, C1 and C2: what came to an agent and did not reach what it did."""

from __future__ import annotations

import pytest

from tests.support.analysis import found
from tests.support.story import Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AnyData,
    ContextUsed,
    ErrorInfo,
    EventId,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ThreadId,
    ThreadOpened,
)

FAILED = ErrorInfo("OSError", "the disk is full")
QUESTION = "Please find out whether the report agrees with the sheet, number by number."


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_what_is_handled_without_a_word_is_ignored() -> None:
    """A message is a hint; an assignment that stays open is a symptom."""
    story, asked = opened()
    told = story.say("planner", "The sheet is new.", to=("coder",), cause=asked)
    story.end("coder", told, worked_ms=5)
    work = story.assign("planner", "document", "Read it", asked)
    story.end("document", work, worked_ms=5)
    findings = found("I1", story)

    assert [(one.agent, one.kind, one.evidence) for one in findings] == [
        ("coder", FindingKind.HINT, (told,)),
        ("document", FindingKind.SYMPTOM, (work,)),
    ]


def test_what_is_answered_or_is_an_answer_is_not_ignored() -> None:
    """A reply that wakes the asker needs no reply of its own."""
    story, asked = opened()
    told = story.say("planner", "The sheet is new.", to=("coder",), cause=asked)
    reply = story.say("coder", "I have seen it.", to=("planner",), cause=told)
    story.end("coder", told, worked_ms=5)
    story.end("planner", reply, worked_ms=5)

    assert found("I1", story) == []


def test_a_reply_as_if_a_tool_had_not_failed_ignores_its_error() -> None:
    """The call that failed is the evidence."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    story.tool("coder", work, "run_python", {"code": "1"}, error=FAILED)
    failed = story.log[-1].event.id
    done = story.finish("coder", work, "The sum is 4,120,000.")
    (finding,) = found("I2", story)

    assert (finding.agent, finding.evidence) == ("coder", (done, failed))


@pytest.mark.parametrize("reply", ["I could not run it: the disk is full.", "It failed."])
def test_an_error_that_is_told_or_mended_is_not_ignored(reply: str) -> None:
    """The reply says so, or a later call has brought the result."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    story.tool("coder", work, "run_python", {"code": "1"}, error=FAILED)
    story.finish("coder", work, reply)
    second = story.assign("planner", "document", "Read it", asked)
    story.tool("document", second, "read", {}, error=FAILED)
    story.tool("document", second, "read", {}, "4")
    story.finish("document", second, "The report says 4.")

    assert found("I2", story) == []


def test_a_thread_that_begins_anew_is_reset() -> None:
    """One of its first messages comes again, late."""
    story, asked = opened()
    first = story.say("planner", QUESTION, cause=asked)
    for number in range(6):
        story.say("coder", f"Number {number} agrees.", cause=first)
    again = story.say("planner", QUESTION + " Thank you.", cause=asked)
    (finding,) = found("C1", story)

    assert finding.evidence == (again, first)


def plan(title: str) -> AnyData:
    """Return a plan of one step."""
    return PlanProposed(steps=(PlanStep(title),))


def test_a_first_plan_again_and_a_context_that_is_gone_are_resets() -> None:
    """As is opening a thread a second time, which is a violation."""
    story, asked = opened()
    first = story.add("planner", plan("Read"), cause=asked)
    story.add("planner", plan("Sum"), cause=asked)
    story.add("coder", ContextUsed(up_to_seq=100, events=40), cause=asked)
    story.add("coder", ContextUsed(up_to_seq=101, events=3), cause=asked)
    story.add("planner", ThreadOpened(title="Side"), thread="side-1")
    story.add("coder", ThreadOpened(title="Side"), thread="side-1")
    findings = found("C1", story)

    assert [one.kind for one in findings] == [
        FindingKind.SYMPTOM,
        FindingKind.SYMPTOM,
        FindingKind.VIOLATION,
    ]
    assert findings[0].evidence[1] == first
    assert "3 events" in findings[1].text
    assert findings[2].thread == ThreadId("side-1")


def test_a_thread_that_goes_on_is_not_reset() -> None:
    """A revised plan, a second planner, early repetition, and a context that grows."""
    story, asked = opened()
    story.say("planner", QUESTION, cause=asked)
    story.say("coder", QUESTION, cause=asked)
    first = story.add("planner", plan("Read"), cause=asked)
    story.add("planner", PlanRevised(replaces=first, steps=(PlanStep("Sum"),)), cause=asked)
    story.add("coder", plan("Sum"), cause=asked)
    story.add("coder", ContextUsed(up_to_seq=100, events=40), cause=asked)
    story.add("coder", ContextUsed(up_to_seq=101, events=38), cause=asked)

    assert found("C1", story) == []


def test_a_context_that_ends_before_the_question_has_lost_history() -> None:
    """So has one that ends before what the agent had seen already."""
    story, asked = opened()
    question = story.say("planner", "Which sheet?", to=("coder",), cause=asked)
    short = story.add("coder", ContextUsed(up_to_seq=3, events=1), cause=question)
    story.add("document", ContextUsed(up_to_seq=20, events=7), cause=asked)
    back = story.add("document", ContextUsed(up_to_seq=9, events=3), cause=asked)
    findings = found("C2", story)

    assert [one.evidence[0] for one in findings] == [short, back]
    assert findings[0].evidence[1] == question


def test_a_context_up_to_the_question_has_all() -> None:
    """What came later need not be in it."""
    story, asked = opened()
    question = story.say("planner", "Which sheet?", to=("coder",), cause=asked)
    story.say("document", "I wonder, too.")
    story.add("coder", ContextUsed(up_to_seq=6, events=2), cause=question)

    assert found("C2", story) == []
