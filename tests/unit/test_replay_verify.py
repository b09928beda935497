"""A sound log has no violation; each way of breaking one is told with its evidence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.support.runs import revenue_run
from tests.support.story import MS, NUMBERS, TASK, Story
from threadbus.replay import LogItem
from threadbus.replay.verifying import Problem, ProblemKind, Report, Verifier
from threadbus.schemas import (
    AssignmentFinished,
    AssignmentMade,
    EventId,
    HandlingEnded,
    MessagePosted,
    ParticipantAdded,
    ParticipantRemoved,
    Recorded,
    ReferencePart,
    Rejected,
    TaskClosed,
    TaskId,
    TaskStatus,
    TextPart,
    ThreadOpened,
    encode_event,
)


def check(log: Sequence[LogItem]) -> Report:
    """Check a log."""
    verifier = Verifier()
    for item in log:
        verifier.take(item)
    return verifier.finish()


def broken(story: Story) -> list[tuple[str, str]]:
    """Return check and text of each violation."""
    return [(p.check, p.text) for p in check(story.log).problems if _is_violation(p)]


def _is_violation(problem: Problem) -> bool:
    return problem.kind is ProblemKind.VIOLATION


def begun() -> Story:
    """Begin a run in which the planner and the coder take part."""
    story = Story()
    story.ask("planner", "coder")
    return story


def test_a_sound_run_is_sound() -> None:
    """Threads, votes, retries, a question and an answer: nothing to report."""
    report = check(revenue_run().log)
    assert (report.violations, report.notes, report.problems) == (0, 0, [])
    assert (report.task, report.entries) == (TASK, 41)


def test_a_stranger_is_seen() -> None:
    """A message, an observation and a control event from outside the thread."""
    story = begun()
    story.say("mallory", "let me in")
    story.end("mallory", story.log[0].event.id, worked_ms=1)
    story.add("mallory", ParticipantAdded(participant="mallory"))
    story.say("mallory", "I am in now")

    assert [check for check, _ in broken(story)] == ["sender"] * 4
    assert "mallory does not take part by then" in broken(story)[-1][1]


def test_who_was_removed_is_late() -> None:
    """It may still observe, and say nothing more."""
    story = begun()
    story.add("planner", ParticipantRemoved(participant="coder"))
    story.end("coder", story.log[0].event.id, worked_ms=1)
    assert broken(story) == []
    story.say("coder", "wait")
    assert broken(story)[0][1].startswith("coder was removed by then")


def test_nothing_follows_the_end() -> None:
    """A message after the close names the close; an observation may follow."""
    story = begun()
    closed = story.add("planner", TaskClosed(outcome=TaskStatus.FAILED))
    story.end("planner", closed, worked_ms=1)
    assert broken(story) == []
    story.say("planner", "one more thing")
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED))

    assert [text for _, text in broken(story)] == [
        "comes after the end of its thread at entry 6"
    ] * 2


def test_a_mention_must_take_part() -> None:
    """Who is not in the thread cannot be woken in it."""
    story = begun()
    story.say("planner", "ghost?", to=("ghost",))
    assert broken(story) == [("guard", "wakes ghost, not in the thread")]


def test_threads_open_once_and_before_they_are_used() -> None:
    """An opening that comes again or late, and one of the main thread."""
    story = begun()
    story.say("planner", "hello?", thread=NUMBERS)
    story.add("planner", ThreadOpened(title="t"), thread=NUMBERS)
    story.add("planner", ThreadOpened(title="t"), thread=NUMBERS)
    story.add("planner", ThreadOpened(title="t"))
    story.add("planner", TaskClosed(outcome=TaskStatus.FAILED), thread=NUMBERS)

    assert [text.split(",")[0] for _, text in broken(story)] == [
        "comes before its thread was opened",
        "opens what was open before",
        "opens the main thread",
        "opens what was open before",
        "a control event of the task outside the main thread",
    ]


def test_an_id_counts_once() -> None:
    """Stored twice it is a note; with other content it is a violation."""
    story = begun()
    story.say("planner", "once")
    again = msgspec.structs.replace(story.log[-1], seq=100)
    report = check([*story.log, again])
    assert [(p.kind, p.check, p.evidence) for p in report.problems] == [
        (ProblemKind.NOTE, "duplicate", (6,))
    ]
    event = msgspec.structs.replace(again.event, data=MessagePosted(parts=(TextPart("twice"),)))
    other = Recorded(101, event, again.stored_at, encode_event(event))
    report = check([*story.log, other])
    assert [(p.kind, p.check) for p in report.problems] == [(ProblemKind.VIOLATION, "duplicate")]


def test_entries_stand_in_the_order_of_the_log() -> None:
    """Sequences that do not rise are a violation; a clock of the server that went back is noted."""
    story = begun()
    story.say("planner", "one", after_ms=60_000)
    story.say("planner", "two", after_ms=60_000)
    first, second, third = story.log
    report = check([first, third, second])
    assert [p.check for p in report.problems] == ["sequence"]
    back = msgspec.structs.replace(third, stored_at=second.stored_at - 30_000 * MS)
    report = check([first, second, back])
    assert {(p.kind, p.check) for p in report.problems} == {(ProblemKind.NOTE, "clock")}
    assert any("the server's clock went back" in p.text for p in report.problems)


def test_clocks_that_differ_are_noted() -> None:
    """An event from the future, and an answer from before its question."""
    story = begun()
    story.say("planner", "early", cause=story.log[0].event.id)
    asked, said = story.log
    late = msgspec.structs.replace(said.event, at=said.stored_at + 10_000 * MS)
    early = msgspec.structs.replace(said.event, at=asked.event.at - 10_000 * MS)
    for event in (late, early):
        report = check([asked, Recorded(said.seq, event, said.stored_at)])
        assert [(p.kind, p.check) for p in report.problems] == [(ProblemKind.NOTE, "clock")]


def test_what_is_referred_to_must_be_there() -> None:
    """An accepted answer that is not in the log is a violation, a lost cause a note."""
    story = begun()
    nowhere = EventId("f" * 32)
    story.say("planner", "as I said", cause=nowhere)
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED, answer=nowhere))
    report = check(story.log)

    assert [(p.kind, p.check) for p in report.problems] == [
        (ProblemKind.NOTE, "missing"),
        (ProblemKind.VIOLATION, "missing"),
    ]


def test_only_the_assignee_settles_an_assignment() -> None:
    """Another one's result, and a result for what is no assignment."""
    story = begun()
    asked = story.log[0].event.id
    made = story.add("planner", AssignmentMade(assignee="coder", parts=(TextPart("Sum"),)))
    story.add("planner", AssignmentFinished(assignment=made, parts=()))
    story.add("coder", AssignmentFinished(assignment=asked, parts=()))

    assert [check for check, _ in broken(story)] == ["reference", "reference"]


def test_bytes_that_are_no_event_are_a_violation() -> None:
    """Garbage, or a body that is not what its subject says; also of a file that breaks off."""
    story = begun()
    report = check([*story.log, Rejected(9, "bus.x", "the subject says sender 'a'")])
    assert [(p.check, p.seq) for p in report.problems] == [("event", 9)]


def test_another_runs_events_do_not_belong() -> None:
    """Nor do copies in a run that is no fork."""
    story = begun()
    other = Story(TaskId(TASK[:-1] + "2"))
    other.ask("planner")
    report = check([*story.log, msgspec.structs.replace(other.log[0], seq=50)])
    assert [p.check for p in report.problems] == ["task"]


def test_a_log_without_its_beginning_is_noted() -> None:
    """What cannot be checked is said."""
    story = revenue_run()
    report = check(story.log[5:])
    assert report.notes
    assert {p.check for p in report.problems} >= {"guard", "missing"}


def test_contents_are_listed_once() -> None:
    """Each hash is fetched once, whoever refers to it."""
    story = begun()
    part = ReferencePart("ab" * 32, 10)
    for _ in range(3):
        story.add("planner", MessagePosted(parts=(part,)))
    verifier = Verifier()
    for item in story.log:
        verifier.take(item)
    assert list(verifier.artifacts) == [part.sha256]


@pytest.mark.parametrize("count", [3000])
def test_problems_are_kept_up_to_a_bound(count: int) -> None:
    """All are counted, the first thousand kept."""
    story = begun()
    for _ in range(count):
        story.add("mallory", HandlingEnded(received_at=1, started_at=1, ended_at=1))
    report = check(story.log)
    assert (report.violations, len(report.problems)) == (count, 1000)
