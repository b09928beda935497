"""From findings to the steps that may have caused them."""

from __future__ import annotations

from tests.support.analysis import analyse
from tests.support.story import Story
from threadbus.replay import FindingKind
from threadbus.schemas import ErrorInfo, EventId, HandlingFailed, MentionDeadLettered

FULL = ErrorInfo("OSError", "the disk is full")


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_the_cause_is_looked_for_upstream_of_what_was_found() -> None:
    """A tool failed, its error was ignored, and what rests on it went wrong."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    story.tool("coder", work, "run_python", {"code": "1"}, error=FULL)
    failed = story.log[-1].event.id
    done = story.finish("coder", work, "The sum is 4,120,000.")
    story.close("planner", story.answer("planner", "4,120,000", asked, sources=(done,)))
    analysis = analyse(story)

    assert [one.detector for one in analysis.findings] == ["B3", "I2"]
    first = analysis.suspects[0]
    assert first.agent == "coder"
    assert {failed, done} == {suspect.event for suspect in analysis.suspects[:2]}
    assert first.findings == ("I2",)
    assert "I2" in first.reasons[0]


def test_what_several_findings_lead_to_is_the_more_suspect() -> None:
    """Three ways in which one assignment went wrong point to it."""
    story, asked = opened()
    beside = story.say("document", "I am idle.", cause=asked)
    work = story.assign("planner", "coder", "Sum it", asked)
    for number in range(3):
        story.tool("coder", work, "save", {"n": number}, error=FULL)
        story.add("coder", HandlingFailed(error=FULL, attempt=number + 1), cause=work)
    story.add("coder", MentionDeadLettered(error=FULL, attempts=3), cause=work)
    story.close("planner")
    analysis = analyse(story)
    scores = {suspect.event: suspect.score for suspect in analysis.suspects}

    assert {suspect.agent for suspect in analysis.suspects} <= {"coder", "planner"}
    assert beside not in scores
    assert 0.3 < max(scores.values()) <= 0.9


def test_there_are_three_at_most_and_none_is_sure() -> None:
    """The likeliest comes first; equal ones come in the order of the log."""
    story, asked = opened()
    for _ in range(40):
        story.say("ghost", "Boo.", cause=asked)
    suspects = analyse(story).suspects

    assert len(suspects) == 3
    assert [one.score for one in suspects] == sorted((one.score for one in suspects), reverse=True)
    assert suspects[0].seq < suspects[1].seq
    assert all(0 < one.score <= 0.9 for one in suspects)


def test_hints_suspect_nobody() -> None:
    """What may well be all right has no cause to look for."""
    story, asked = opened()
    told = story.say("planner", "The sheet is new.", to=("coder",), cause=asked)
    story.end("coder", told, worked_ms=5)
    story.close("planner", story.answer("planner", "4", asked))
    analysis = analyse(story)

    assert {one.kind for one in analysis.findings} == {FindingKind.HINT}
    assert analysis.suspects == ()


def test_whoever_asked_is_hardly_suspect() -> None:
    """The opening is upstream of everything, and no agent made it."""
    story, asked = opened()
    story.say("planner", "We should read the report first.", cause=asked)
    story.say("planner", "We should read the report first.", cause=asked)
    suspects = analyse(story).suspects

    assert suspects[0].agent == "planner"
    assert all(one.agent != "user" or one.score < 0.05 for one in suspects)


def test_the_same_log_has_the_same_suspects() -> None:
    """Nothing depends on chance."""
    story, asked = opened()
    story.tool("coder", asked, "save", {}, error=ErrorInfo("RateLimitError", "slow down"))
    story.say("ghost", "Boo.", cause=asked)

    assert analyse(story) == analyse(story)
