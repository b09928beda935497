"""E1, E2, E3, F2, F5 and F6: errors of tools, models and attempts, and throttled agents."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.analysis import found
from tests.support.story import MS, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AgentThrottled,
    AssignmentFailed,
    ErrorInfo,
    EventId,
    HandlingFailed,
    MentionDeadLettered,
    ModelCalled,
    ThrottleAction,
)

FULL = ErrorInfo("OSError", "the disk is full")


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_the_same_error_again_and_again_is_a_burst() -> None:
    """Three of one kind from one tool; or a large share of many calls."""
    story, asked = opened()
    for number in range(4):
        story.tool("coder", asked, "save", {"name": number}, error=FULL)
    for number in range(6):
        error = ErrorInfo(f"Error{number}", "no") if number % 2 else None
        story.tool("document", asked, f"read{number}", {"n": number}, "text", error=error)
    burst, share = found("E1", story)

    assert (burst.agent, len(burst.evidence)) == ("coder", 3)
    assert "OSError: the disk is full" in burst.text
    assert "3 of 6 tool calls of document failed" in share.text


def test_a_few_errors_are_no_burst() -> None:
    """Of several kinds, or among many calls."""
    story, asked = opened()
    for number in range(9):
        error = FULL if number < 2 else None
        story.tool("coder", asked, "save", {"name": number}, "saved", error=error)

    assert found("E1", story) == []
    assert len(found("E1", story, "E1.times=2")) == 1


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (ErrorInfo("RateLimitError", "slow down"), "a rate limit"),
        (ErrorInfo("APIStatusError", "HTTP 429: too many requests"), "a rate limit"),
        (ErrorInfo("ModelTimeoutError", "no answer in 120 s"), "a time limit"),
        (ErrorInfo("BadRequestError", "blocked by the content filter"), "a refusal"),
    ],
)
def test_a_refusal_from_outside_is_told_apart(error: ErrorInfo, word: str) -> None:
    """Of a model, of a tool, of an attempt."""
    story, asked = opened()
    story.model("planner", asked, error=error)
    story.tool("coder", asked, "search", {}, error=error)
    story.add("document", HandlingFailed(error=error), cause=asked)
    findings = found("E2", story)

    assert [one.agent for one in findings] == ["planner", "coder", "document"]
    assert all(word in one.text for one in findings)


def test_a_reply_that_refuses_is_a_refusal() -> None:
    """As is a model that a content filter stopped."""
    story, asked = opened()
    story.say("planner", "I'm sorry, but I cannot assist with that.", cause=asked)
    data = ModelCalled(model="m", started_at=1, duration_ns=MS, finish_reason="content_filter")
    story.add("coder", data, cause=asked)

    assert [one.agent for one in found("E2", story)] == ["planner", "coder"]


def test_other_errors_and_other_talk_are_no_refusal() -> None:
    """A word alone does not make one."""
    story, asked = opened()
    story.model("planner", asked, error=ErrorInfo("ValueError", "not a number"))
    story.say("planner", "The rate limit of the service is 429 calls; sorry for asking.")
    story.say("planner", "The content of page 2 is a safety notice.")

    assert found("E2", story) == []


@pytest.mark.parametrize(
    "error",
    [
        ErrorInfo("BadToolArgumentsError", "save: 'name' is a required property"),
        ErrorInfo("UnknownToolError", "there is no tool 'sav'"),
        ErrorInfo("ToolError", "1 validation error for Save"),
    ],
)
def test_a_call_in_a_wrong_form_is_malformed(error: ErrorInfo) -> None:
    """The call is the evidence."""
    story, asked = opened()
    story.tool("coder", asked, "save", {}, error=error)
    call, result = story.log[-2:]
    (finding,) = found("E3", story)

    assert finding.evidence == (result.event.id, call.event.id)


def test_a_call_that_fails_otherwise_is_well_formed() -> None:
    """The disk is not the caller's fault."""
    story, asked = opened()
    story.tool("coder", asked, "save", {"name": "a"}, error=FULL)

    assert found("E3", story) == []


def test_what_is_given_up_is_a_dead_letter_once() -> None:
    """The failure of an assignment and its dead letter are one."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    failed = story.add("coder", AssignmentFailed(assignment=work, error=FULL), cause=work)
    story.add("coder", MentionDeadLettered(error=FULL, attempts=3), cause=work)
    question = story.say("planner", "Which?", to=("document",), cause=asked)
    dead = story.add("document", MentionDeadLettered(error=FULL, attempts=1), cause=question)
    findings = found("F2", story)

    assert [one.evidence for one in findings] == [(failed, work), (dead, question)]
    assert {one.kind for one in findings} == {FindingKind.SYMPTOM}


def test_a_failed_attempt_is_a_hint_and_no_dead_letter() -> None:
    """What the end of the task or a stop cut off is not even that."""
    story, asked = opened()
    failed = story.add("planner", HandlingFailed(error=FULL, retry_in_ns=5), cause=asked)
    for kind in ("Aborted", "TaskEndedError"):
        error = msgspec.structs.replace(FULL, kind=kind)
        story.add("planner", HandlingFailed(error=error), cause=asked)
    (finding,) = found("F5", story)

    assert (finding.kind, finding.evidence) == (FindingKind.HINT, (failed, asked))
    assert "is tried again: OSError" in finding.text
    assert found("F2", story) == []


def test_who_was_throttled_is_told_once() -> None:
    """Once for each agent, limit and way; it names the limit and who set it."""
    story, asked = opened()
    record = AgentThrottled(
        agent="coder",
        action=ThrottleAction.UNANSWERED,
        limit="mentions_per_minute",
        allowed=6_000,
        set_by="operator",
    )
    first = story.add("planner", record, cause=asked)
    story.add("document", record, cause=asked)
    own = msgspec.structs.replace(record, action=ThrottleAction.HELD_BACK, set_by="")
    held = story.add("coder", own)
    findings = found("F6", story)

    assert [(one.agent, one.evidence) for one in findings] == [
        ("coder", (first, asked)),
        ("coder", (held,)),
    ]
    assert "6,000 mentions per minute, set by operator, and is unanswered" in findings[0].text
