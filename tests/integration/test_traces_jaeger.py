"""Traces in a real Jaeger: live ones and replayed ones are the same, and sent twice are once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.jaeger import Jaeger, private_jaeger
from tests.support.nats_server import NatsServer
from tests.support.running_agents import find, running
from tests.support.runs import revenue_run, troubled_run
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Bus, connect
from threadbus.replay.tracing.collector import Collector
from threadbus.replay.tracing.examining import RunExaminer
from threadbus.replay.tracing.inprocess import tracing
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.run import spans_of, trace_run
from threadbus.schemas import AgentCard, AssignmentMode, HandlingEnded, TaskId

WAIT = timedelta(seconds=30)


@pytest.fixture(scope="module")
async def jaeger() -> AsyncIterator[Jaeger]:
    """A Jaeger for this module."""
    async with private_jaeger() as found:
        yield found


def links_of(row: Any) -> list[tuple[str, str]]:
    """Return what a span of OTLP JSON is linked to."""
    return [(link["traceId"], link["spanId"]) for link in row.get("links", [])]


async def check(jaeger: Jaeger, spans: Sequence[Span]) -> None:
    """Compare what Jaeger has of a trace with *spans*, over both of its interfaces."""
    task = spans[0].trace
    expected = {span.id: span for span in spans}
    found = {row["spanId"]: row for row in await jaeger.spans(task)}
    rows = {row["spanID"]: row for row in await jaeger.rows(task)}
    assert found.keys() == expected.keys() == rows.keys()
    for number, span in expected.items():
        row, shown = found[number], rows[number]
        assert row["traceId"] == shown["traceID"] == task
        assert row.get("parentSpanId", "") == (span.parent or "")
        assert row["name"] == shown["operationName"] == span.name
        assert row["service"] == shown["service"] == span.service
        assert int(row["kind"]) == span.kind.value
        assert int(row["startTimeUnixNano"]) == span.start
        assert int(row["endTimeUnixNano"]) == span.end
        assert shown["startTime"] == span.start // 1000
        assert links_of(row) == [(link.trace, link.span) for link in span.links]
        parents = [ref["spanID"] for ref in shown["references"] if ref["refType"] == "CHILD_OF"]
        assert parents == ([span.parent] if span.parent else [])
        follows = [r["spanID"] for r in shown["references"] if r["refType"] == "FOLLOWS_FROM"]
        assert follows == [link.span for link in span.links]
        status = row.get("status", {})
        assert status.get("code", 0) == (0 if span.error is None else 2)
        assert status.get("message", "") == (span.error or "")
        assert [event["name"] for event in row.get("events", [])] == [
            event.name for event in span.events
        ]


@pytest.mark.parametrize("make", [revenue_run, troubled_run], ids=["revenue", "troubled"])
async def test_a_replayed_trace_is_in_jaeger_as_it_was_computed(jaeger: Jaeger, make: Any) -> None:
    """Ids, parents, links, times, kinds, statuses and events; sent again the count stays."""
    spans = spans_of(make().log)
    # Both runs have the same id; each test looks at a trace of its own.
    task = TaskId(f"{spans[0].trace[:16]}{len(spans):016x}")
    moved = spans_of(_moved(make(), task))
    collector = Collector(jaeger.otlp)
    for _ in range(2):
        await collector.send(moved)
        await jaeger.has(task, len(moved))
        await check(jaeger, moved)
    assert collector.sent == 2 * len(moved)


def _moved(story: Any, task: TaskId) -> list[Any]:
    """Return the log of a made-up run under another id."""
    return [
        msgspec.structs.replace(entry, event=msgspec.structs.replace(entry.event, task=task))
        for entry in story.log
    ]


def team() -> list[Agent]:
    """Return a planner that asks two others at once, one of which fails at its first attempt."""
    limits = AgentLimits(max_attempts=3, first_retry=timedelta(0))
    planner, web, doc = (Agent(name, limits=limits) for name in ("planner", "web", "doc"))

    @planner.on_mention
    async def plan(mention: Mention) -> str:
        made = [
            await mention.assign_later(name, "look", mode=AssignmentMode.SYNC)
            for name in ("web", "doc")
        ]
        results = await mention.results(made, timeout=WAIT)
        return ", ".join(result.text for result in results)

    @web.on_mention
    async def look(mention: Mention) -> str:
        if mention.attempt == 1:
            raise ValueError("the index is locked")
        return "found"

    @doc.on_mention
    async def read(mention: Mention) -> str:
        return f"read after {mention.attempt}"

    return [planner, web, doc]


async def run_team(user: Bus, count: int) -> list[TaskId]:
    """Let the team work on some questions at the same time, to the last word of each."""
    planner, web, doc = team()
    async with running(planner, user), running(web, user), running(doc, user):
        answers = await asyncio.gather(
            *(
                user.ask(f"Q{number}", to=["planner"], participants=["web", "doc"], timeout=WAIT)
                for number in range(count)
            )
        )
        for answer in answers:
            await find(user, answer.task, HandlingEnded, count=3)
    return [answer.task for answer in answers]


async def test_live_and_replayed_traces_are_one(jaeger: Jaeger, nats_server: NatsServer) -> None:
    """Agents that know nothing of tracing are traced live; the replay changes nothing."""
    async with connect(nats_server.url, name="user") as user:
        await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        # Lines with a traceback take a while to be painted.
        with capture_logs():
            async with tracing(user, jaeger.otlp, name="exporter-one"):
                tasks = await run_team(user, 3)
        for task in tasks:
            run = trace_run(user.read(task), examine=RunExaminer)
            spans = [span async for group in run for span in group]
            await jaeger.has(task, len(spans))
            await check(jaeger, spans)

            await Collector(jaeger.otlp).send(spans)
            await check(jaeger, spans)
            # Jaeger warns of spans that begin before what they are in.
            assert not [row for row in await jaeger.rows(task) if row["warnings"]]
            failed = [event for span in spans for event in span.events if event.name == "exception"]
            assert len(failed) == 1
