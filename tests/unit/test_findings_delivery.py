"""F1, F3, F4 and S2: faults of the bus itself."""

from __future__ import annotations

import msgspec

from tests.support.analysis import found
from tests.support.story import MS, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    ErrorInfo,
    EventId,
    HandlingFailed,
    HandlingStarted,
    Rejected,
)

S = 1_000 * MS
ERROR = ErrorInfo("OSError", "no")


def opened() -> tuple[Story, EventId]:
    """Return a run with two agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder")


def test_an_attempt_after_one_that_said_nothing_is_a_redelivery() -> None:
    """The process died; told once for the attempt, by its start or by its end."""
    story, asked = opened()
    first = story.add("planner", HandlingStarted(replica="a"), cause=asked)
    again = story.add("planner", HandlingStarted(attempt=2, replica="b"), cause=asked)
    story.end("planner", asked, worked_ms=3, attempt=2)
    work = story.assign("planner", "coder", "Sum it", asked)
    end = story.end("coder", work, worked_ms=3, attempt=3)
    findings = found("F1", story)

    assert [one.evidence for one in findings] == [(again, first, asked), (end, work)]
    assert {one.kind for one in findings} == {FindingKind.SYMPTOM}


def test_one_mention_in_two_processes_is_a_redelivery() -> None:
    """Both say that they begin."""
    story, asked = opened()
    first = story.add("planner", HandlingStarted(replica="a"), cause=asked)
    second = story.add("planner", HandlingStarted(replica="b"), cause=asked)
    (finding,) = found("F1", story)

    assert finding.evidence == (second, first, asked)


def test_an_attempt_after_a_failed_one_is_no_redelivery() -> None:
    """The failure was told."""
    story, asked = opened()
    story.add("planner", HandlingStarted(replica="a"), cause=asked)
    story.add("planner", HandlingFailed(error=ERROR, retry_in_ns=5), cause=asked)
    story.add("planner", HandlingStarted(attempt=2, replica="a"), cause=asked)
    story.end("planner", asked, worked_ms=3, attempt=2)

    assert found("F1", story) == []


def test_an_event_that_is_there_twice_is_repeated() -> None:
    """The second one is told, with how much later it came."""
    story, asked = opened()
    story.say("planner", "It is 4.", cause=asked)
    last = story.log[-1]
    story.log.append(msgspec.structs.replace(last, seq=99, stored_at=last.stored_at + 3 * S))
    (finding,) = found("F3", story)

    assert (finding.seq, finding.evidence) == (99, (last.event.id,))
    assert "3.00 s after the first" in finding.text
    assert found("F3", story.log[:-1]) == []


def test_bytes_that_are_no_event_are_a_violation() -> None:
    """Its place and the reason are told."""
    story, _ = opened()
    (finding,) = found("F4", [*story.log, Rejected(7, "bus.x", "not JSON", 5)])

    assert (finding.kind, finding.seq, finding.at) == (FindingKind.VIOLATION, 7, 5)
    assert "not JSON" in finding.text
    assert found("F4", story) == []


def test_a_clock_that_is_ahead_or_behind_is_a_hint() -> None:
    """Once for each agent."""
    story, asked = opened()
    for sender, shift in (("planner", 9 * S), ("planner", 9 * S), ("coder", -20 * S)):
        story.say(sender, "It is late.", cause=asked)
        last = story.log[-1]
        moved = msgspec.structs.replace(last.event, at=last.event.at + shift)
        story.log[-1] = msgspec.structs.replace(last, event=moved)
    findings = found("S2", story)

    assert [one.agent for one in findings] == ["planner", "coder"]
    assert "ahead" in findings[0].text
    assert "at least 20.0 s behind" in findings[1].text


def test_clocks_that_nearly_agree_are_fine() -> None:
    """A few seconds are allowed."""
    story, asked = opened()
    story.say("planner", "It is late.", cause=asked)
    last = story.log[-1]
    moved = msgspec.structs.replace(last.event, at=last.event.at + 3 * S)
    story.log[-1] = msgspec.structs.replace(last, event=moved)

    assert found("S2", story) == []
    assert len(found("S2", story, "S2.tolerance_s=1")) == 1
