"""Faults that look less like the rule that finds them, and what only looks like them."""

from __future__ import annotations

from tests.support.analysis import found
from tests.support.story import Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AssignmentAccepted,
    AssignmentMode,
    ErrorInfo,
    EventId,
    HandlingStarted,
    MentionReceived,
    TaskClosed,
    TaskStatus,
)

WORK = "Count the rows of the file sales.csv"
GONE = ErrorInfo("FileNotFoundError", "there is no file sales.csv")


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_whoever_has_begun_is_passed_over_also_within_a_moment() -> None:
    """The same work for another agent is no fan-out once the first one is seen at work."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    story.add("coder", HandlingStarted(replica="coder-1"), cause=first, after_ms=5)
    second = story.assign("planner", "document", WORK, asked, after_ms=5)
    story.finish("document", second, "twelve", after_ms=5)
    story.finish("coder", first, "thirteen", after_ms=5)
    (finding,) = found("LB", story)

    assert finding.evidence[0] == second
    assert finding.agent == "planner"


def test_the_receipt_of_a_busy_agent_does_not_end_a_fan_out() -> None:
    """Work for several at once is meant so, also where one of them says that it is busy."""
    story, asked = opened()
    first = story.assign("planner", "coder", WORK, asked)
    story.add("coder", MentionReceived(queue_depth=1), cause=first, after_ms=1)
    second = story.assign("planner", "document", WORK, asked, after_ms=1)
    story.finish("document", second, "twelve", after_ms=5)
    story.finish("coder", first, "thirteen", after_ms=5)

    assert found("LB", story) == []


def test_a_reply_after_the_answer_is_late() -> None:
    """Whoever asked did not wait for the reply."""
    story, asked = opened()
    question = story.say("planner", "How many?", to=("coder",), cause=asked, awaited=True)
    answer = story.answer("planner", "twelve", asked, after_ms=100)
    late = story.say("coder", "Thirteen.", cause=question, after_ms=100)
    story.close("planner", answer)
    (finding,) = found("U2", story)

    assert finding.evidence == (late, question, answer)
    assert finding.agent == "coder"


def test_a_reply_that_nobody_waits_for_is_not_late() -> None:
    """Only what was waited for can be too late, and only the first reply to it."""
    story, asked = opened()
    told = story.say("planner", "I go on.", to=("coder",), cause=asked)
    question = story.say("planner", "How many?", to=("document",), cause=asked, awaited=True)
    story.say("document", "Twelve.", cause=question)
    answer = story.answer("planner", "twelve", asked)
    story.say("coder", "Fine.", cause=told)
    story.say("document", "Twelve, as I said.", cause=question)
    story.close("planner", answer)

    assert found("U2", story) == []


def test_no_problems_is_no_admission() -> None:
    """A result that denies problems passes over the error; one that tells of any does not."""
    for told, count in (
        ("I read all rows without any problems.", 1),
        ("All rows are read, no errors.", 1),
        ("Read, with no errors but one: the file is missing.", 0),
        ("There was a problem with the file.", 0),
    ):
        story, asked = opened()
        work = story.assign("planner", "coder", WORK, asked)
        story.tool("coder", work, "read_file", {"path": "sales.csv"}, error=GONE)
        story.finish("coder", work, told)

        assert len(found("I2", story)) == count, told


def test_an_agent_that_only_accepts_can_stall() -> None:
    """To accept work is a sign that it has begun."""
    story, asked = opened()
    work = story.assign("planner", "coder", WORK, asked, mode=AssignmentMode.ASYNC)
    accepted = story.add("coder", AssignmentAccepted(assignment=work), cause=work)
    for _ in range(4):
        story.say("planner", "I wait.", cause=asked, after_ms=30_000)
    story.finish("coder", work, "twelve")
    (finding,) = found("U3", story)

    assert finding.evidence[0] == accepted
    assert finding.agent == "coder"


def test_an_agent_that_accepts_and_finishes_does_not_stall() -> None:
    """What is silent after its result has nothing left to do."""
    story, asked = opened()
    work = story.assign("planner", "coder", WORK, asked, mode=AssignmentMode.ASYNC)
    story.add("coder", AssignmentAccepted(assignment=work), cause=work)
    story.finish("coder", work, "twelve", after_ms=1_000)
    for _ in range(4):
        story.say("planner", "I write it down.", cause=asked, after_ms=30_000)

    assert found("U3", story) == []


def test_a_task_that_its_own_agent_closes_as_failed_is_answered() -> None:
    """The close tells whoever opened it; a close by somebody else does not count as a word."""
    for closer, count in (("planner", 0), ("document", 1)):
        story, asked = opened()
        story.model("planner", asked)
        story.add(closer, TaskClosed(outcome=TaskStatus.FAILED, summary="nothing to count"))
        story.end("planner", asked, worked_ms=10)

        assert len(found("U1", story)) == count, closer


def test_a_circle_points_to_its_second_round() -> None:
    """The first round brought something; the second is the first that brings nothing."""
    story, _ = opened()
    said: list[EventId] = []
    for _ in range(3):
        said += [story.say("planner", "You do it."), story.say("coder", "No, you do it.")]
    (finding,) = found("R3", story)

    assert finding.evidence == (said[5], said[2], said[3])
    assert finding.kind is FindingKind.SYMPTOM


def test_work_that_two_give_away_is_repeated() -> None:
    """Somebody gives away what is under way; whoever has it may pass it down."""
    for asker, count in (("document", 1), ("coder", 0)):
        story, asked = opened()
        story.assign("planner", "coder", WORK, asked, mode=AssignmentMode.ASYNC)
        to = "coder" if asker == "document" else "document"
        story.assign(asker, to, WORK, asked, mode=AssignmentMode.ASYNC, after_ms=50)

        assert len(found("RA", story)) == count, asker


def test_the_same_work_with_the_same_result_stands_still() -> None:
    """The third time is too often, unless the result has changed in between."""
    for results, count in (
        (("no price found", "no price found", "no price found"), 1),
        (("no price found", "one price found", "no price found"), 0),
        (("no price found", "no price found"), 0),
    ):
        story, asked = opened()
        for told in results:
            story.finish("coder", story.assign("planner", "coder", WORK, asked), told)
        findings = found("R4", story)

        assert len(findings) == count, results
        assert all(one.agent == "planner" for one in findings)
