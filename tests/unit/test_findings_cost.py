"""B1, B2, B3 and S1: who used most of it, what was used up, and who waited for whom."""

from __future__ import annotations

import pytest

from tests.support.analysis import found
from tests.support.story import MS, START, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AnyData,
    ErrorInfo,
    EventId,
    HandlingFailed,
    ModelCalled,
    TaskClosed,
    TaskStatus,
    ThreadOpened,
)

S = 1_000 * MS


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def spending(planner: int, coder: int, document: int) -> Story:
    """Return a completed run in which the agents use so many tokens."""
    story, asked = opened()
    story.model("planner", asked, tokens=(planner, 0))
    for agent, count in (("coder", coder), ("document", document)):
        work = story.assign("planner", agent, f"Work for {agent}", asked)
        story.model(agent, work, tokens=(count, 0))
        story.finish(agent, work, "4")
    story.close("planner", story.answer("planner", "4", asked))
    return story


def test_an_agent_that_uses_most_of_the_tokens_is_a_hint() -> None:
    """Whose share is large, or many times that of the others."""
    (finding,) = found("B1", spending(20_000, 3_000, 3_000))

    assert (finding.kind, finding.agent) == (FindingKind.HINT, "planner")
    assert "20,000 of 26,000 tokens (77%)" in finding.text


def test_an_even_and_a_small_run_are_no_hint() -> None:
    """Few tokens do not matter, however they are spread."""
    assert found("B1", spending(5_000, 5_000, 4_000)) == []
    assert found("B1", spending(2_000, 30, 30)) == []
    assert len(found("B1", spending(2_000, 30, 30), "B1.min_tokens=100")) == 1


def test_tokens_for_what_the_answer_does_not_rest_on_are_wasted() -> None:
    """What was asked for and delivered counts as used."""
    story, asked = opened()
    story.model("planner", asked, tokens=(4_000, 0))
    work = story.assign("planner", "coder", "Sum it", asked)
    story.model("coder", work, tokens=(4_000, 0))
    story.finish("coder", work, "4")
    beside = story.say("user", "And the weather?", to=("document",))
    story.model("document", beside, tokens=(9_000, 0))
    answer = story.answer("planner", "4", asked)
    story.close("planner", answer)
    (finding,) = found("B1", story)

    assert finding.evidence == (answer,)
    assert "53% of 17,000 tokens" in finding.text


def cut_off(story: Story, asked: EventId) -> None:
    """Let a model stop at its limit."""
    data = ModelCalled(model="m", started_at=1, duration_ns=MS, finish_reason="length")
    story.add("planner", data, cause=asked)


def timed_out(story: Story, asked: EventId) -> None:
    """Let an attempt run out of time."""
    error = ErrorInfo("TurnTimeoutError", "over 60 s")
    story.add("planner", HandlingFailed(error=error), cause=asked)


def closed_by_limit(story: Story, asked: EventId) -> None:
    """Close the task because of its budget."""
    data = TaskClosed(outcome=TaskStatus.FAILED, summary="the token budget is used up")
    story.add("planner", data, cause=asked)


def too_many_turns(story: Story, asked: EventId) -> None:
    """Let a thread have more turns than it may."""
    data: AnyData = ThreadOpened(title="Side", participants=("coder",), max_turns=1)
    story.add("planner", data, thread="side-1", cause=asked)
    for _ in range(2):
        story.say("planner", "Which?", to=("coder",), thread="side-1", cause=asked)


@pytest.mark.parametrize("reach", [cut_off, timed_out, closed_by_limit, too_many_turns])
def test_a_limit_that_is_reached_is_a_symptom(reach: object) -> None:
    """Of a model's answer, of an attempt, of the task, of a thread."""
    story, asked = opened()
    assert callable(reach)
    reach(story, asked)
    (finding,) = found("B2", story)

    assert finding.kind is FindingKind.SYMPTOM


def test_a_budget_and_a_deadline_that_are_passed_are_symptoms() -> None:
    """A task that was closed in time has kept its deadline."""
    story = Story()
    asked = story.open("planner", token_budget=1_000, deadline_at=START + 60 * S)
    story.model("planner", asked, tokens=(900, 200))
    late = found("B2", story, now=START + 61 * S)
    story.close("planner", story.answer("planner", "4", asked))

    assert ["1,100 tokens" in late[0].text, "deadline" in late[1].text] == [True, True]
    assert len(found("B2", story)) == 1
    assert found("B2", spending(1, 1, 1)) == []


def test_agents_that_never_did_anything_are_a_hint() -> None:
    """As is one that takes nearly all turns."""
    story, asked = opened()
    story.answer("planner", "4", asked)
    (idle,) = found("B3", story)
    busy, asked = opened()
    for number in range(12):
        story_work = busy.assign("planner", "coder", f"Sum {number}", asked)
        busy.finish("coder", story_work, "4")
    busy.finish("document", busy.assign("planner", "document", "Read it", asked), "4")
    (turns,) = found("B3", busy)

    assert "coder, document" in idle.text
    assert "coder took 12 of 14 turns" in turns.text


def test_a_team_in_which_each_has_a_part_is_balanced() -> None:
    """Also one of two, of which one does the work."""
    pair = Story()
    pair.answer("planner", "4", pair.open("planner", "coder"))

    assert found("B3", spending(1, 1, 1)) == []
    assert found("B3", pair) == []


def test_a_long_wait_for_a_busy_agent_is_a_hint() -> None:
    """It is measured against the whole run."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    story.finish("coder", work, "4", after_ms=9_000)
    story.end("coder", work, worked_ms=1_000, waited_ms=8_000)
    story.close("planner", story.answer("planner", "4", asked, after_ms=1_000))
    (finding,) = found("S1", story)

    assert (finding.agent, finding.evidence) == ("coder", (work,))
    assert "waited 8.00 s for coder" in finding.text
    assert found("S1", story, "S1.wait_share=0.9") == []


def test_an_agent_that_takes_the_way_to_the_answer_is_a_hint() -> None:
    """The path goes back from the answer to what was waited for."""
    story, asked = opened()
    first = story.assign("planner", "document", "Read it", asked, after_ms=1_000)
    story.finish("document", first, "4", after_ms=5_000)
    work = story.assign("planner", "coder", "Sum it", asked, after_ms=1_000)
    story.finish("coder", work, "4", after_ms=80_000)
    story.close("planner", story.answer("planner", "4", asked, after_ms=1_000))
    (finding,) = found("S1", story)

    assert finding.agent == "coder"
    assert "1 min 20 s (91%)" in finding.text
    assert found("S1", spending(1, 1, 1)) == []
