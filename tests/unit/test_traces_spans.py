"""Spans from a log: which there are, when they are final, and that they are always the same."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import pytest

from tests.support.runs import revenue_run, troubled_run
from tests.support.story import MS, NUMBERS, Story
from threadbus.replay import FileSource, Finding, FindingKind, LogItem, find_task
from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.model import Span, SpanKind, Value, link_beyond
from threadbus.replay.tracing.otlp import encode_request, encode_span
from threadbus.replay.tracing.run import spans_of, trace_run
from threadbus.replay.tracing.spans import SETTLE_NS, SpanFold
from threadbus.schemas import (
    AnswerSubmitted,
    ErrorInfo,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    Recorded,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    span_id,
    task_span_id,
    thread_span_id,
    turn_span_id,
)

S = 1_000


def closed(story: Story, by: str, asked: EventId | None = None, after_ms: float = 1) -> None:
    """Append the end of the task."""
    story.add(by, TaskClosed(outcome=TaskStatus.COMPLETED), cause=asked, after_ms=after_ms)


def ended(story: Story, agent: str, asked: EventId, *, started_ms: float, attempt: int = 1) -> None:
    """Append the end of a turn that began so many milliseconds ago."""
    started = story.now - int(started_ms * MS)
    data = HandlingEnded(
        received_at=started, started_at=started, ended_at=story.now, attempt=attempt
    )
    story.add(agent, data, cause=asked)


def simple_run() -> Story:
    """A question and its answer."""
    story = Story()
    asked = story.ask("web")
    story.model("web", asked)
    story.add("web", AnswerSubmitted(parts=(TextPart("42"),)), cause=asked)
    closed(story, "web", asked)
    ended(story, "web", asked, started_ms=1300)
    return story


def value(span: Span, name: str) -> Value | None:
    """Return an attribute."""
    return dict(span.attributes).get(name)


def named(spans: Sequence[Span], name: str) -> Span:
    """Return the only span of a name."""
    (found,) = [span for span in spans if span.name == name]
    return found


RUNS: dict[str, Callable[[], Story]] = {
    "simple": simple_run,
    "revenue": revenue_run,
    "troubled": troubled_run,
}


def test_a_run_is_one_trace_of_the_task() -> None:
    """Root, turn, model call and sends, with ids that follow from the task and its events."""
    story = simple_run()
    spans = spans_of(story.log)
    asked, called = story.log[0].event.id, story.log[1].event.id
    root, turn = named(spans, "invoke_workflow"), named(spans, "invoke_agent web")
    model, sent = named(spans, "chat small-1"), named(spans, "send to web: task.opened")

    assert {span.trace for span in spans} == {story.task}
    assert (root.id, root.parent, root.service) == (task_span_id(story.task), None, "threadbus")
    assert (turn.id, turn.parent) == (turn_span_id(asked, story.log[1].event.sender), root.id)
    assert (model.id, model.parent, model.service) == (span_id(called), turn.id, "web")
    assert (sent.id, sent.parent, sent.service) == (span_id(asked), root.id, "user")
    assert [(link.trace, link.span) for link in turn.links] == [(story.task, sent.id)]
    assert [span.kind for span in (root, turn, model, sent)] == [
        SpanKind.INTERNAL,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
        SpanKind.PRODUCER,
    ]
    assert value(model, sc.INPUT_TOKENS) == value(turn, sc.INPUT_TOKENS) == 512
    assert model.end - model.start == 1200 * MS


@pytest.mark.parametrize("name", RUNS)
def test_every_parent_is_there_and_every_id_is_one(name: str) -> None:
    """No span hangs in the air, and none comes twice."""
    spans = spans_of(RUNS[name]().log)
    ids = {span.id for span in spans}

    assert len(ids) == len(spans)
    assert {span.parent for span in spans} - {None} <= ids
    assert [span.name for span in spans if span.parent is None] == ["invoke_workflow"]
    assert all(0 < span.start <= span.end for span in spans)


@pytest.mark.parametrize("name", RUNS)
def test_the_order_and_the_repetition_of_entries_change_nothing(name: str) -> None:
    """Shuffled and doubled, the log gives the same bytes."""
    log: list[Recorded] = RUNS[name]().log
    expected = encode_request(spans_of(log))
    shuffled = [*log, *log[::3]]
    random.Random(7).shuffle(shuffled)

    assert encode_request(spans_of(shuffled)) == expected


@pytest.mark.parametrize("name", RUNS)
def test_a_fold_that_was_lost_anywhere_goes_on_with_the_same_bytes(name: str) -> None:
    """After any entry, one that computes what came before again gives out the same from there."""
    log = RUNS[name]().log
    fold = SpanFold()
    steps = [[encode_span(span) for span in fold.apply(entry)] for entry in log]
    for lost_at in range(len(log)):
        again = SpanFold()
        for entry in log[:lost_at]:
            again.apply(entry)
        rest = [[encode_span(span) for span in again.apply(entry)] for entry in log[lost_at:]]

        assert rest == steps[lost_at:]


async def test_a_file_and_the_log_give_the_same_bytes() -> None:
    """A run that was exported is the same trace."""
    source = FileSource("examples/replay/report-run.jsonl")
    task = await find_task(source, "")
    entries = [entry async for entry in source.read(task)]
    streamed = [span async for spans in trace_run(source.read(task)) for span in spans]

    assert len(streamed) == 32
    assert encode_request(streamed) == encode_request(spans_of(entries))


def test_a_turn_is_final_at_its_end_and_the_task_with_its_last_turn() -> None:
    """Each span is given out by the entry that ends it, and no later one changes it."""
    story = simple_run()
    fold = SpanFold()
    given = [[span.name for span in fold.apply(entry)] for entry in story.log[:-1]]

    assert given == [
        ["send to web: task.opened"],
        ["chat small-1"],
        ["send answer.submitted"],
        ["send task.closed"],
    ]
    assert not fold.due(story.log[-1].stored_at)
    assert [span.name for span in fold.apply(story.log[-1])] == ["invoke_agent web"]
    assert fold.due(story.log[-1].stored_at)
    assert [span.name for span in fold.settle()] == ["invoke_workflow"]


def test_an_agent_that_says_nothing_of_its_handling_is_traced() -> None:
    """In any language, an answer with its cause is a turn, which ends a while after the task."""
    story = Story()
    asked = story.ask("plain")
    answer = story.add("plain", AnswerSubmitted(parts=(TextPart("9"),)), cause=asked, after_ms=20)
    closed(story, "plain", answer)
    fold = SpanFold()
    for entry in story.log:
        fold.apply(entry)
    at = story.log[-1].stored_at

    assert not fold.due(at + SETTLE_NS)
    assert fold.due(at + SETTLE_NS + 1)
    turn, root = fold.settle()
    assert (turn.name, value(turn, sc.TURN_OUTCOME)) == ("invoke_agent plain", "unfinished")
    assert (root.name, value(root, sc.TASK_STATE)) == ("invoke_workflow", "closed")
    assert encode_request([*spans_of(story.log)[-2:]]) == encode_request([turn, root])


def test_what_ends_too_late_is_traced_and_changes_nothing_that_was_final() -> None:
    """A turn that begins after the root was final has a span of its own beneath it."""
    story = simple_run()
    first = spans_of(story.log)
    asked = story.say("user", "and?", to=("doc",), after_ms=20 * S)
    ended(story, "doc", asked, started_ms=5)
    both = spans_of(story.log)

    assert encode_request(both[: len(first)]) == encode_request(first)
    assert [span.name for span in both[len(first) :]] == [
        "send to doc: message.posted",
        "invoke_agent doc",
    ]


def test_a_failed_attempt_is_an_event_and_the_last_one_an_error() -> None:
    """A turn that is tried again is one span; given up, its status says why."""
    story = Story()
    asked = story.ask("web", "doc")
    for agent, last in (("web", False), ("doc", True)):
        story.add(agent, HandlingStarted(attempt=1), cause=asked, after_ms=1)
        error = ErrorInfo("ValueError", "no such column")
        failed = HandlingFailed(error=error, attempt=1, retry_in_ns=None if last else 5)
        story.add(agent, failed, cause=asked, after_ms=1)
    story.add(
        "doc", MentionDeadLettered(error=ErrorInfo("ValueError", "gone"), attempts=1), cause=asked
    )
    story.now += 5 * MS
    ended(story, "web", asked, started_ms=6, attempt=2)
    closed(story, "user")
    spans = spans_of(story.log)
    web, doc = named(spans, "invoke_agent web"), named(spans, "invoke_agent doc")
    letter = named(spans, "send mention.dead_lettered")

    assert (web.error, value(web, sc.TURN_ATTEMPTS)) == (None, 2)
    assert [event.name for event in web.events] == ["exception"]
    assert doc.error == "ValueError: no such column"
    assert value(doc, sc.ERROR_TYPE) == "ValueError"
    assert (letter.parent, letter.error) == (doc.id, "ValueError: gone")


def test_a_thread_has_a_span_and_its_turns_are_beneath_it() -> None:
    """It is linked to the turn that opened it, and ends when it is closed."""
    story = Story()
    asked = story.ask("web")
    opened = ThreadOpened(title="Check numbers", participants=("doc",))
    story.add("web", opened, thread=NUMBERS, cause=asked, after_ms=1)
    question = story.say("web", "?", to=("doc",), thread=NUMBERS, cause=asked)
    story.say("doc", "!", thread=NUMBERS, cause=question, after_ms=4)
    story.add("web", ThreadClosed(), thread=NUMBERS, cause=asked, after_ms=4)
    closed(story, "web", asked)
    ended(story, "web", asked, started_ms=9)
    spans = spans_of(story.log)
    thread, turn = named(spans, "thread check-numbers"), named(spans, "invoke_agent web")
    doc = named(spans, "invoke_agent doc")

    assert (thread.id, thread.parent) == (
        thread_span_id(story.task, NUMBERS),
        task_span_id(story.task),
    )
    assert [link.span for link in thread.links] == [turn.id]
    assert doc.parent == thread.id
    assert thread.end == story.log[4].stored_at
    # The reply to what it asked is linked to the turn that asked.
    assert span_id(story.log[3].event.id) in [link.span for link in turn.links]


def test_a_run_that_goes_on_says_so() -> None:
    """What is open ends at the last event for now, and is marked."""
    story = Story()
    asked = story.ask("web")
    story.model("web", asked)
    spans = spans_of(story.log)
    root, turn = named(spans, "invoke_workflow"), named(spans, "invoke_agent web")

    assert value(root, sc.TASK_STATE) == value(turn, sc.TASK_STATE) == "open"
    assert root.end == turn.end == story.log[-1].stored_at
    assert value(named(spans, "chat small-1"), sc.TASK_STATE) is None


def test_clocks_that_are_far_apart_are_brought_together() -> None:
    """An agent whose clock is an hour ahead does not leave the run."""
    story = simple_run()
    shift = 3600 * S * MS
    log = [_shifted(entry, shift if entry.event.sender == "web" else 0) for entry in story.log]
    root = named(spans_of(log), "invoke_workflow")
    turn = named(spans_of(log), "invoke_agent web")

    assert root.end - root.start < 10 * S * MS
    assert abs(turn.start - named(spans_of(story.log), "invoke_agent web").start) <= MS


def _shifted(entry: Recorded, ns: int) -> Recorded:
    data = entry.event.data
    for name in ("started_at", "ended_at", "received_at"):
        if hasattr(data, name):
            data = msgspec.structs.replace(data, **{name: getattr(data, name) + ns})
    event = msgspec.structs.replace(entry.event, at=entry.event.at + ns, data=data)
    return msgspec.structs.replace(entry, event=event)


async def test_findings_are_events_of_the_root() -> None:
    """Each says what was found and where; the spans that show it are linked."""
    story = simple_run()
    blamed = story.log[1].event.id

    class Examiner:
        """Finds one thing."""

        def __init__(self) -> None:
            self.seen: list[LogItem] = []

        def apply(self, item: LogItem) -> None:
            """Take the next entry."""
            self.seen.append(item)

        def findings(self) -> Sequence[Finding]:
            """Say what was found."""
            assert len(self.seen) == len(story.log)
            return [
                Finding(
                    detector="R1",
                    name="loop",
                    kind=FindingKind.VIOLATION,
                    seq=6,
                    at=self.seen[-1].stored_at,
                    text="It asked the same thing again.",
                    evidence=(blamed,),
                )
            ]

    async def log() -> AsyncIterator[Recorded]:
        for entry in story.log:
            yield entry

    spans = [span async for group in trace_run(log(), examine=Examiner) for span in group]
    root = named(spans, "invoke_workflow")
    (event,) = root.events

    assert event.name == "bus.finding"
    assert dict(event.attributes)[sc.FINDING_SPAN] == span_id(blamed)
    assert dict(event.attributes)[sc.FINDING_SEVERITY] == "violation"
    assert [link.span for link in root.links] == [span_id(blamed)]


def test_what_was_said_is_in_the_spans_only_on_demand() -> None:
    """Texts may be private: without being asked for, no word of them is in a span."""
    log = revenue_run().log
    with_content, without = (encode_request(spans_of(log, content=c)) for c in (True, False))

    assert b"Read the total from report.docx" in with_content
    assert b"Read the total from report.docx" not in without
    assert b"gen_ai.input.messages" not in without


@pytest.mark.parametrize(
    ("said", "links"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 1),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", 0),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", 0),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", 0),
        ("nonsense", 0),
        ("", 0),
    ],
)
def test_the_root_links_to_who_called(said: str, links: int) -> None:
    """A gateway that was called in a trace leaves it as a label; the root is linked to it."""
    link = link_beyond(said, ((sc.LINK, "foreign"),))
    story = Story()
    opened = TaskOpened(title="Q", parts=(TextPart("Q"),), labels={"traceparent": said})
    story.add("user", opened, mentions=("web",))
    closed(story, "user")
    root = next(span for span in spans_of(story.log) if span.parent is None)

    assert len(root.links) == links
    assert root.links == (() if link is None else (link,))
