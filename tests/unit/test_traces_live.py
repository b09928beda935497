"""The live exporter: everything that becomes final, whatever is forgotten or dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.support.eventually import eventually
from tests.support.running_agents import agent_of, find, running
from threadbus.bus import Bus
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.replay import Finding, FindingKind, LogItem
from threadbus.replay.errors import CollectorRefusedError, CollectorUnreachableError
from threadbus.replay.tracing.examining import Examine
from threadbus.replay.tracing.inprocess import tracing
from threadbus.replay.tracing.live import Exported, LiveExporter, patient
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.otlp import encode_span
from threadbus.replay.tracing.run import spans_of, trace_run
from threadbus.schemas import (
    AgentCard,
    AnswerSubmitted,
    HandlingEnded,
    TaskId,
    TaskStatus,
    TextPart,
)

WAIT = timedelta(seconds=30)


class Sink:
    """Takes spans, as a collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.errors: list[Exception] = []

    async def send(self, spans: Sequence[Span]) -> None:
        """Take spans, or fail as a test wants it."""
        if self.errors:
            raise self.errors.pop(0)
        self.spans += spans

    def bytes_of(self, task: TaskId) -> set[bytes]:
        """Return the spans of one super-task as bytes, each once."""
        return {encode_span(span) for span in self.spans if span.trace == task}


class Counting:
    """Finds how many entries there are."""

    def __init__(self) -> None:
        self.seen: list[LogItem] = []

    def apply(self, item: LogItem) -> None:
        """Take the next entry."""
        self.seen.append(item)

    def findings(self) -> Sequence[Finding]:
        """Say how many there are."""
        last = self.seen[-1]
        text = f"{len(self.seen)} entries"
        kind = FindingKind.HINT
        return [
            Finding(
                detector="T1", name="test", kind=kind, seq=last.seq, at=last.stored_at, text=text
            )
        ]


@pytest.fixture
def backend() -> InMemoryBackend:
    """What a server keeps."""
    return InMemoryBackend()


@pytest.fixture
async def user(backend: InMemoryBackend) -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with connect_in_memory("user", backend=backend) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="test")
        yield bus


@asynccontextmanager
async def exporting(
    user: Bus,
    sink: Sink,
    *,
    max_tasks: int = 100,
    examine: Examine | None = None,
) -> AsyncGenerator[Exported]:
    """Export while the context lasts, then to the end of the log."""
    leaving = asyncio.Event()
    async with user.consuming("exporter") as consumer:
        exporter = LiveExporter(user, consumer, sink.send, max_tasks=max_tasks, examine=examine)
        work = asyncio.create_task(exporter.run(leaving.is_set))
        yield exporter.done
        leaving.set()
        async with asyncio.timeout(30):
            await work


async def interleaved(user: Bus, count: int) -> list[TaskId]:
    """Open some super-tasks, let all of them be worked on at a time, and end them."""
    async with running(agent_of("42"), user):
        answers = await asyncio.gather(
            *(user.ask(f"Q{number}", to=["web"], timeout=WAIT) for number in range(count))
        )
        for answer in answers:
            await find(user, answer.task, HandlingEnded)
    return [answer.task for answer in answers]


async def replayed(user: Bus, task: TaskId, now: int | None = None) -> set[bytes]:
    """Return the spans that a replay of a super-task has, as bytes."""
    return {encode_span(span) for span in spans_of([e async for e in user.read(task)], now=now)}


@pytest.mark.parametrize("max_tasks", [1, 100], ids=["one in memory", "all in memory"])
async def test_what_is_exported_live_is_what_a_replay_has(user: Bus, max_tasks: int) -> None:
    """Byte for byte and each span once, also where each event makes the exporter read again."""
    sink = Sink()
    async with exporting(user, sink, max_tasks=max_tasks) as done:
        tasks = await interleaved(user, 7)

    for task in tasks:
        assert sink.bytes_of(task) == await replayed(user, task)
    assert len(sink.spans) == len({span.id for span in sink.spans}) == done.spans
    assert (done.rebuilt > 0) == (max_tasks == 1)
    assert done.traces == 7


async def test_an_exporter_that_died_anywhere_misses_nothing(user: Bus) -> None:
    """Killed again and again before it noted what it had sent, it sends that once more."""
    tasks = await interleaved(user, 5)
    sink = Sink()
    for _ in range(4):
        async with user.consuming("exporter") as consumer:

            async def send_and_die(spans: Sequence[Span]) -> None:
                sink.spans += spans[: len(spans) // 2]
                raise RuntimeError("killed")

            exporter = LiveExporter(user, consumer, send_and_die)
            with pytest.raises(RuntimeError, match="killed"):
                await exporter.run()
    assert sink.spans
    async with exporting(user, sink):
        pass

    for task in tasks:
        assert sink.bytes_of(task) == await replayed(user, task)
    before = len(sink.spans)
    async with exporting(user, sink):
        pass
    assert len(sink.spans) == before


async def test_a_turn_that_never_ends_does_not_hold_up_the_trace(
    user: Bus, backend: InMemoryBackend
) -> None:
    """An agent that says nothing of its handling: the root comes when the time for it is over."""
    async with connect_in_memory("plain", backend=backend) as plain:
        await plain.registry.register(AgentCard(name="plain"), holder="test")
        sink = Sink()
        async with exporting(user, sink) as done:
            opened = await user.tasks.open("Q", to=["plain"])
            task = opened.event.task
            await plain.append(
                AnswerSubmitted(parts=(TextPart("1"),)), task=task, cause=opened.event.id
            )
            await plain.tasks.close(task, TaskStatus.COMPLETED)

            async def sent() -> bool:
                return len(sink.spans) == 3

            await eventually(sent, "the sends alone")
            assert done.traces == 0
            backend.advance(timedelta(seconds=11))

            async def ended() -> bool:
                return done.traces == 1

            await eventually(ended, "the root")
    now = (await user.storage()).server_time

    assert sink.bytes_of(task) == await replayed(user, task, now)


async def test_findings_are_looked_for_when_a_run_has_ended(user: Bus) -> None:
    """The live root has the findings of the whole run, as the one of a replay."""

    sink = Sink()
    async with exporting(user, sink, examine=Counting):
        (task,) = await interleaved(user, 1)
    again = [span async for group in trace_run(user.read(task), examine=Counting) for span in group]

    assert sink.bytes_of(task) == {encode_span(span) for span in again}
    (root,) = [span for span in sink.spans if span.parent is None]
    assert [event.name for event in root.events] == ["bus.finding"]


async def test_a_collector_that_is_away_is_waited_for(user: Bus) -> None:
    """Nothing is lost while nobody answers, and it is said."""
    sink = Sink()
    sink.errors = [CollectorUnreachableError("http://x", "refused") for _ in range(3)]
    with capture_logs() as logs:
        async with user.consuming("exporter") as consumer:
            leaving = asyncio.Event()
            exporter = LiveExporter(user, consumer, patient(sink.send))
            (task,) = await interleaved(user, 1)
            leaving.set()
            async with asyncio.timeout(30):
                await exporter.run(leaving.is_set)

    assert sink.bytes_of(task) == await replayed(user, task)
    assert "waiting for the collector" in [line["event"] for line in logs]


async def test_spans_that_are_refused_are_counted_and_the_rest_goes_on(user: Bus) -> None:
    """A collector that cannot take a batch does not stop the export."""
    sink = Sink()
    sink.errors = [CollectorRefusedError("http://x", 400, "bad")]
    with capture_logs() as logs:
        async with exporting(user, sink) as done:
            await interleaved(user, 1)
    assert done.refused > 0
    assert "spans are left out" in [line["event"] for line in logs]


async def test_a_collector_that_wants_a_key_ends_the_export(user: Bus) -> None:
    """Whoever runs it has to do something about it; nothing counts as done."""
    await interleaved(user, 1)
    sink = Sink()
    sink.errors = [CollectorRefusedError("http://x", 401, "no key")]
    async with user.consuming("exporter") as consumer:
        with pytest.raises(CollectorRefusedError, match=r"no key \(HTTP 401\)"):
            await LiveExporter(user, consumer, sink.send).run(lambda: True)

        assert consumer.position == 0


async def test_tracing_that_cannot_go_on_leaves_the_work_alone(user: Bus) -> None:
    """In the process of an agent, a collector that is missing is a line of the log."""
    with capture_logs() as logs:
        async with tracing(user, "http://127.0.0.1:9", drain=timedelta(0)):
            (task,) = await interleaved(user, 1)

            async def told() -> bool:
                return any(line["event"] == "waiting for the collector" for line in logs)

            await eventually(told, "that the collector is missing")
    assert (await user.tasks.state(task)).status is TaskStatus.COMPLETED
