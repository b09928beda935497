"""U1 to U4: an answer that does not come, comes late, or cannot come."""

from __future__ import annotations

from tests.support.analysis import found
from tests.support.story import MS, START, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AssignmentCancelled,
    ErrorInfo,
    EventId,
    HandlingFailed,
    HandlingStarted,
    InputRequested,
    TaskClosed,
    TaskStatus,
    TextPart,
)

S = 1_000 * MS


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def test_a_request_without_a_reply_is_unanswered() -> None:
    """When the task closes, or once the deadline of the assignment has passed."""
    story, asked = opened()
    question = story.say("planner", "Is it so?", to=("coder",), cause=asked, awaited=True)
    work = story.assign("planner", "document", "Read it", asked, deadline_at=story.now + S)
    early = found("U1", story, now=story.now + S // 2)
    late = found("U1", story, now=story.now + 2 * S)
    answer = story.answer("planner", "Nobody knows.", asked, after_ms=3000)
    story.close("planner", answer)
    closed = found("U1", story)

    assert early == []
    assert [(one.agent, one.evidence[0]) for one in late] == [("document", work)]
    assert [(one.agent, one.evidence[0]) for one in closed] == [
        ("coder", question),
        ("document", work),
    ]
    assert {one.kind for one in closed} == {FindingKind.SYMPTOM}


def test_a_reply_in_silence_and_a_person_that_is_silent_are_unanswered() -> None:
    """A handler that ends without a word to one who waits; a question to whoever opened."""
    story, asked = opened()
    question = story.say("planner", "Is it so?", to=("coder",), cause=asked, awaited=True)
    story.end("coder", question, worked_ms=5)
    request = story.add("planner", InputRequested(parts=(TextPart("Which?"),)), cause=asked)
    story.close("planner")
    findings = found("U1", story)

    assert [one.evidence[0] for one in findings if one.agent != "planner"] == [question]
    assert request in [one.evidence[0] for one in findings]


def test_what_asks_for_nothing_is_not_unanswered() -> None:
    """A reply that mentions the asker, a result, a cancelled task, an answered opening."""
    story, asked = opened()
    question = story.say("coder", "Is it so?", to=("planner",))
    story.say("planner", "It is.", to=("coder",), cause=question)
    work = story.assign("planner", "document", "Read it", asked)
    done = story.finish("document", work, "Read.", to=("planner",))
    story.close("planner", story.answer("planner", "So it is.", done))
    cancelled = Story()
    cancelled.ask("planner")
    cancelled.add("user", TaskClosed(outcome=TaskStatus.CANCELLED))

    assert found("U1", story) == []
    assert found("U1", cancelled) == []


def test_a_result_after_its_deadline_or_its_end_is_late() -> None:
    """Past the time that was set, past the deadline of the task, or taken back before."""
    story = Story()
    asked = story.open("planner", "coder", "document", deadline_at=START + 60 * S)
    slow = story.assign("planner", "coder", "Sum it", asked, deadline_at=story.now + S)
    taken = story.assign("planner", "document", "Read it", asked)
    story.add("planner", AssignmentCancelled(assignment=taken), cause=asked)
    late = story.finish("coder", slow, "4", after_ms=5000)
    too_late = story.finish("document", taken, "Read.", after_ms=10)
    answer = story.answer("planner", "4", asked, after_ms=70_000)
    findings = found("U2", story)

    assert [one.evidence[0] for one in findings] == [late, too_late, answer]
    assert "4.00 s late" in findings[0].text
    assert "taken back" in findings[1].text


def test_a_result_in_time_is_not_late() -> None:
    """Also when it comes in the second that is allowed."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked, deadline_at=story.now + S)
    story.finish("coder", work, "4", after_ms=1500)

    assert found("U2", story) == []
    assert len(found("U2", story, "U2.grace_s=0.1")) == 1


def test_an_agent_that_falls_silent_at_work_is_stalled() -> None:
    """Also one that never comes back."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    began = story.add("coder", HandlingStarted(), cause=work)
    story.finish("coder", work, "4", after_ms=90_000)
    (finding,) = found("U3", story)
    gone = Story()
    asked = gone.open("planner", "coder")
    last = gone.add("planner", HandlingStarted(), cause=asked)

    assert (finding.agent, finding.evidence) == ("coder", (began, work))
    assert found("U3", gone, now=gone.now + 30 * S) == []
    assert [one.evidence[0] for one in found("U3", gone, now=gone.now + 90 * S)] == [last]


def test_an_agent_that_waits_or_thinks_is_not_stalled() -> None:
    """A model, a tool, another agent, and the pause before another attempt take time."""
    story, asked = opened()
    story.add("planner", HandlingStarted(), cause=asked)
    story.model("planner", asked, took_ms=100_000)
    story.tool("planner", asked, "build", {}, "done", took_ms=100_000)
    work = story.assign("planner", "coder", "Sum it", asked)
    story.model("coder", work, took_ms=100_000)
    story.finish("coder", work, "4")
    error = ErrorInfo("ValueError", "no")
    story.add("planner", HandlingFailed(error=error, retry_in_ns=100 * S), cause=asked)
    story.add("planner", HandlingStarted(attempt=2), cause=asked, after_ms=100_000)

    assert found("U3", story) == []
    assert found("U4", story) == []


def test_an_agent_that_is_always_slow_is_not_stalled() -> None:
    """What it usually takes is allowed three times."""
    story, asked = opened()
    for number in range(4):
        work = story.assign("planner", "coder", f"Sum sheet {number}", asked)
        story.add("coder", HandlingStarted(), cause=work)
        story.finish("coder", work, "4", after_ms=50_000)
        story.end("coder", work, worked_ms=50_000)
    work = story.assign("planner", "coder", "Sum the last sheet", asked)
    story.add("coder", HandlingStarted(), cause=work)
    story.finish("coder", work, "4", after_ms=100_000)

    assert found("U3", story) == []
    assert len(found("U3", story, "U3.times=1")) == 1


def test_a_task_in_which_nothing_happens_is_stalled() -> None:
    """In the middle, or at its end; not while it is known what takes so long."""
    story, asked = opened()
    story.assign("planner", "coder", "Sum it", asked)
    last = story.log[-1].event.id
    story.say("document", "Hello?", after_ms=70_000)
    (finding,) = found("U4", story, now=story.now + S)
    open_end = found("U4", story, now=story.now + 70 * S)

    assert finding.evidence[0] == last
    assert len(open_end) == 2


def test_a_task_that_waits_for_a_person_is_not_stalled() -> None:
    """Persons are slow; and where nothing is open nothing can stall."""
    story, asked = opened()
    story.add("planner", InputRequested(parts=(TextPart("Which?"),)), cause=asked)
    story.say("planner", "I have asked.", cause=asked, after_ms=90_000)
    idle = Story()
    asked = idle.open("planner")
    idle.say("planner", "What do you need?", cause=asked)
    idle.end("planner", asked, worked_ms=3)
    idle.say("user", "A number.", to=("planner",), after_ms=900_000)

    assert found("U4", story, now=story.now + 900 * S) == []
    assert found("U4", idle) == []


def waiting_for_each_other(thread: str = "main") -> Story:
    """Return a run in which two agents ask one another and both wait."""
    story, asked = opened()
    story.add("planner", HandlingStarted(), cause=asked)
    first = story.say("planner", "Which sheet?", to=("coder",), cause=asked, awaited=True)
    story.add("coder", HandlingStarted(), cause=first)
    story.say("coder", "Which one?", to=("planner",), cause=first, awaited=True, thread=thread)
    return story


def test_two_agents_that_wait_for_each_other_are_a_deadlock() -> None:
    """In one thread it is a violation; across threads they might go on."""
    (violation,) = found("U4", waiting_for_each_other(), now=START + S)
    (symptom,) = found("U4", waiting_for_each_other("side"), now=START + S)

    assert violation.kind is FindingKind.VIOLATION
    assert "planner waits for coder waits for planner" in violation.text
    assert symptom.kind is FindingKind.SYMPTOM


def test_a_question_that_is_answered_is_no_deadlock() -> None:
    """The circle is open once one of them has replied."""
    story = waiting_for_each_other()
    story.say("planner", "The first.", cause=story.log[-1].event.id)

    assert found("U4", story, now=story.now + S) == []
