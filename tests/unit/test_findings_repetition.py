"""R1 to R4: the same again, nearly the same, in circles, or to no effect."""

from __future__ import annotations

import pytest

from tests.support.analysis import found
from tests.support.story import Story
from threadbus.replay import FindingKind
from threadbus.schemas import ArtifactAdded, ErrorInfo, EventId, HandlingFailed, TextPart

LONG = (
    "The report says that revenue rose to 4,210,000 in the second quarter of the year, which is "
    "more than the sheet says, and I think that we should look at the returns first."
)
FAILED = ErrorInfo("ToolError", "the disk is full")


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_the_same_message_again_is_a_repetition() -> None:
    """It is reported once, at the second time, however often it comes."""
    story, asked = opened()
    first = story.say("planner", "We should read the report first.", cause=asked)
    second = story.say("planner", "We should  read the REPORT first.", cause=asked, after_ms=9)
    story.say("planner", "We should read the report first.", cause=asked)
    (finding,) = found("R1", story)

    assert (finding.kind, finding.agent) == (FindingKind.SYMPTOM, "planner")
    assert finding.evidence == (second, first)
    assert "2 times" in finding.text


def test_the_same_message_after_news_is_none() -> None:
    """A result, another agent's message, or other numbers make it something else."""
    story, asked = opened()
    story.say("planner", "We should read the report first.", cause=asked)
    story.say("coder", "There is none.")
    story.say("planner", "We should read the report first.", cause=asked)
    story.say("planner", "Reading page 3 of it now.", cause=asked)
    story.say("planner", "Reading page 4 of it now.", cause=asked)

    assert found("R1", story) == []


def test_the_same_call_of_a_tool_again_is_a_repetition() -> None:
    """Same tool, same arguments, in whatever order they stand."""
    story, asked = opened()
    story.tool("planner", asked, "search", {"q": "revenue", "n": 3}, "nothing")
    story.tool("planner", asked, "search", {"n": 3, "q": "revenue"}, "nothing")
    (finding,) = found("R1", story)

    assert "search with the same arguments" in finding.text


def test_polling_and_trying_again_are_no_repetition() -> None:
    """A tool that polls, one more call after an error, and the attempt after a failed one."""
    story, asked = opened()
    for _ in range(5):
        story.tool("planner", asked, "get_status", {"job": 1}, "running")
    story.tool("planner", asked, "save", {"name": "a"}, error=FAILED)
    story.tool("planner", asked, "save", {"name": "a"}, "saved")
    story.tool("coder", asked, "read", {"name": "a"}, "text of it")
    story.add("coder", HandlingFailed(error=FAILED, retry_in_ns=5), cause=asked)
    story.tool("coder", asked, "read", {"name": "a"}, "text of it")

    assert found("R1", story) == []
    assert len(found("R1", story, "polling=wait*")) == 1


def test_the_number_of_times_is_a_setting() -> None:
    """Who expects three of the same can say so."""
    story, asked = opened()
    for _ in range(3):
        story.say("planner", "We should read the report first.", cause=asked)

    assert len(found("R1", story, "R1.times=3")) == 1
    assert found("R1", story, "R1.times=4") == []


def test_nearly_the_same_message_is_a_repetition() -> None:
    """A few other words do not make another message."""
    story, asked = opened()
    first = story.say("planner", LONG, cause=asked)
    second = story.say("planner", LONG.replace("I think", "I believe"), cause=asked)
    (finding,) = found("R2", story)

    assert finding.evidence == (second, first)
    assert finding.kind is FindingKind.SYMPTOM


def test_another_message_is_no_repetition() -> None:
    """Other content, or the same after another agent spoke."""
    story, asked = opened()
    story.say("planner", LONG, cause=asked)
    story.say("planner", "Something else altogether, " + "with words of its own. " * 6, cause=asked)
    story.say("coder", "What of it?")
    story.say("planner", LONG.replace("I think", "I believe"), cause=asked)

    assert found("R2", story) == []


def test_two_agents_that_go_back_and_forth_are_a_loop() -> None:
    """The same two messages, three times."""
    story, _ = opened()
    for _ in range(3):
        story.say("planner", "After you, please.", to=("coder",))
        story.say("coder", "No, after you.", to=("planner",))
    (finding,) = found("R3", story)

    assert "planner and coder go back and forth" in finding.text


def test_a_circle_of_tools_is_a_loop() -> None:
    """Calls of one agent go round as well."""
    story, asked = opened()
    for _ in range(3):
        story.tool("coder", asked, "read", {"page": 1}, "one")
        story.tool("coder", asked, "search", {"q": "x"}, "none")
        story.tool("coder", asked, "list", {}, "one, two")
    (finding,) = found("R3", story)

    assert (finding.agent, "the same 3 acts" in finding.text) == ("coder", True)


@pytest.mark.parametrize("lasting", [True, False])
def test_a_conversation_that_gets_somewhere_is_no_loop(lasting: bool) -> None:
    """What lasts in between, or other words, break a circle."""
    story, _ = opened()
    for number in range(4):
        story.say("planner", "After you, please." if lasting else f"After you, number {number}.")
        story.say("coder", "No, after you.")
        if lasting:
            story.add("coder", ArtifactAdded(name=f"{number}.csv", part=TextPart("x")))

    assert found("R3", story) == []


def test_one_result_for_different_calls_is_stagnation() -> None:
    """Three searches that find the same."""
    story, asked = opened()
    for query in ("revenue", "turnover", "sales"):
        story.tool("coder", asked, "search", {"q": query}, "No results were found.")
    (finding,) = found("R4", story)

    assert finding.agent == "coder"
    assert len(finding.evidence) == 3


def test_different_results_and_short_ones_are_no_stagnation() -> None:
    """A tool that only says ok says nothing."""
    story, asked = opened()
    for number in range(4):
        story.tool("coder", asked, "search", {"q": number}, f"Result number {number} of it.")
        story.tool("coder", asked, "save", {"name": number}, "ok")

    assert found("R4", story) == []
