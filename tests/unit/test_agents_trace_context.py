"""The code of a turn knows where it is: in log lines, in headers, and for other people's spans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.testing import LogCapture

from tests.support.model_servers import settings_for, speaking
from tests.support.running_agents import find, running, user_in_memory
from threadbus.agents import Agent, AgentLimits, Mention, current_traceparent, from_callable
from threadbus.agents.model import ChatMessage, Model
from threadbus.bus import Bus
from threadbus.replay.tracing.run import spans_of
from threadbus.schemas import HandlingEnded, TaskId, ThreadId, turn_span_id

WAIT = timedelta(seconds=30)
ANSWER = (
    b'{"id":"a","object":"chat.completion","created":1,"model":"m","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
)


@pytest.fixture
async def user() -> AsyncIterator[Bus]:
    """A bus in memory on which the user is registered."""
    async with user_in_memory() as bus:
        yield bus


@pytest.fixture
def lines() -> Iterator[LogCapture]:
    """What is logged, with what is bound to the context."""
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture
    structlog.configure(**before)


def agent_that(handle: Any, name: str = "web") -> Agent:
    """Return an agent that tries once."""
    agent = Agent(name, limits=AgentLimits(max_attempts=1))
    agent.on_mention(handle)
    return agent


async def test_spans_of_a_handler_nest_under_its_turn(user: Bus) -> None:
    """An agent's own OpenTelemetry span has the turn of the derived trace as its parent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("an agent's own")

    async def handle(mention: Mention) -> str:
        carrier = {"traceparent": mention.traceparent}
        context = TraceContextTextMapPropagator().extract(carrier)
        with tracer.start_as_current_span("search the index", context=context):
            return "42"

    async with running(agent_that(handle), user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)
        await find(user, answer.task, HandlingEnded)
    entries = [entry async for entry in user.read(answer.task)]
    (turn,) = [span for span in spans_of(entries) if span.name == "invoke_agent web"]
    (own,) = exporter.get_finished_spans()

    assert _parent(own) == (answer.task, turn.id)
    assert own.context is not None
    assert trace.format_trace_id(own.context.trace_id) == answer.task


def _parent(span: ReadableSpan) -> tuple[str, str]:
    assert span.parent is not None
    return trace.format_trace_id(span.parent.trace_id), trace.format_span_id(span.parent.span_id)


async def test_plain_functions_and_tools_know_the_turn(user: Bus) -> None:
    """What a turn starts has its context without being told; outside of a turn there is none."""
    seen: list[str] = []

    def run(question: str) -> str:
        seen.append(current_traceparent())
        return question

    async with running(from_callable(run, name="web"), user):
        answer = await user.ask("Q", to=["web"], timeout=WAIT)
    opening = await anext(user.read(answer.task))
    event: Any = opening
    turn = turn_span_id(event.event.id, event.event.mentions[0])

    assert seen == [f"00-{answer.task}-{turn}-01"]
    assert current_traceparent() == ""


async def test_log_lines_of_a_turn_name_it(user: Bus, lines: LogCapture) -> None:
    """Each line carries trace, task, thread and agent, and those of two turns do not mix."""
    log: Any = structlog.get_logger("an agent's own")

    async def handle(mention: Mention) -> str:
        log.info("working", asked=mention.text)
        return mention.text

    async with running(agent_that(handle), user), running(agent_that(handle, "doc"), user):
        answers = [
            await user.ask(text, to=[name], timeout=WAIT)
            for text, name in (("one", "web"), ("two", "doc"))
        ]
    log.info("outside")
    working = {line["asked"]: line for line in lines.entries if line["event"] == "working"}
    (outside,) = [line for line in lines.entries if line["event"] == "outside"]

    for text, name, task in (("one", "web", answers[0].task), ("two", "doc", answers[1].task)):
        expected: tuple[TaskId, TaskId, ThreadId, str] = (task, task, ThreadId("main"), name)
        line = working[text]
        assert (line["trace"], line["task"], line["thread"], line["agent"]) == expected
        assert len(line["span"]) == 16
    assert not {"trace", "task", "thread", "agent"} & set(outside)


async def test_a_failed_handler_is_logged_with_its_turn(user: Bus, lines: LogCapture) -> None:
    """The library's own lines about a turn carry the same."""

    async def handle(mention: Mention) -> str:
        raise ValueError("no such column")

    async with running(agent_that(handle), user):
        opened = await user.tasks.open("Q", to=["web"])
        await user.waits.for_close(opened.event.task, ThreadId("main"), timeout=WAIT)
    (line,) = [line for line in lines.entries if line["event"] == "a handler failed"]

    assert (line["trace"], line["agent"]) == (opened.event.task, "web")


async def test_a_call_of_a_model_carries_the_turn(user: Bus) -> None:
    """A model server that is traced itself can put its spans beneath the turn."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
    response = head + str(len(ANSWER)).encode() + b"\r\n\r\n" + ANSWER
    parents: list[str] = []

    async with speaking([response]) as (url, requests), Model(settings_for(url)) as model:

        async def handle(mention: Mention) -> str:
            parents.append(mention.traceparent)
            answer = await model.complete([ChatMessage.user("hello")])
            return answer.text

        async with running(agent_that(handle), user):
            answer = await user.ask("Q", to=["web"], timeout=WAIT)

    assert answer.text == "hi"
    assert f"traceparent: {parents[0]}".encode() in requests[0].lower()
