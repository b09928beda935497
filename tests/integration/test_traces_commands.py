"""`bus trace` and `busreplay --otlp` as a person runs them, against a collector that listens."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from tests.support.busreplay import busreplay
from tests.support.cli import environment, start
from tests.support.eventually import eventually
from tests.support.jaeger import free_ports
from tests.support.nats_server import NatsServer, running_nats_server
from tests.support.otlp_receiver import Receiver, otlp_receiver
from tests.support.running_agents import agent_of, find, running
from threadbus.bus import Bus, connect
from threadbus.replay import FileSource
from threadbus.replay.tracing.examining import RunExaminer
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.otlp import encode_span
from threadbus.replay.tracing.run import trace_run
from threadbus.schemas import AgentCard, HandlingEnded, TaskId

REPORT = "examples/replay/report-run.jsonl"
REPORT_TASK = "01a22bbf14017faa94baf898e516e750"


async def trace(url: str, collector: str, home: Path, *flags: str) -> Process:
    """Start `bus trace`."""
    words = ("trace", "--otlp", collector, "--url", url, *flags)
    return await start(*words, env=environment(home))


async def asked(user: Bus, count: int) -> list[TaskId]:
    """Let an agent answer some questions."""
    async with running(agent_of("42"), user):
        answers = [await user.ask("Q", to=["web"]) for _ in range(count)]
        for answer in answers:
            await find(user, answer.task, HandlingEnded)
    return [answer.task for answer in answers]


async def replayed(user: Bus, task: TaskId) -> set[bytes]:
    """Return the spans of a replay as bytes."""
    run = trace_run(user.read(task), examine=RunExaminer)
    spans: list[Span] = [span async for group in run for span in group]
    return {encode_span(span) for span in spans}


def received(receiver: Receiver, task: TaskId) -> set[bytes]:
    """Return the spans of a trace that came, as bytes."""
    return {
        span.SerializeToString(deterministic=True)
        for _, span in receiver.spans
        if span.trace_id.hex() == task
    }


async def test_a_trace_that_is_killed_goes_on_and_misses_nothing(tmp_path: Path) -> None:
    """SIGKILL, then a new start: what came in the end is what a replay has, byte for byte."""
    (tmp_path / "nats").mkdir()
    with running_nats_server(tmp_path / "nats") as server, otlp_receiver() as receiver:
        async with connect(server.url, name="user") as user:
            await user.registry.register(AgentCard(name="user"), holder="test")
            first = await trace(server.url, receiver.url, tmp_path)
            tasks = await asked(user, 3)

            async def some() -> bool:
                return len(receiver.spans) > 4

            await eventually(some, "the first spans", 60)
            first.kill()
            await first.wait()
            tasks += await asked(user, 2)
            second = await trace(server.url, receiver.url, tmp_path, "--metrics")

            async def everything() -> bool:
                return all([received(receiver, t) == await replayed(user, t) for t in tasks])

            await eventually(everything, "all spans of all super-tasks", 60)
            second.send_signal(signal.SIGTERM)
            _, err = await second.communicate()

    assert second.returncode == 0, err
    assert b"done up to sequence" in err
    assert {
        "gen_ai.invoke_agent.duration",
        "messaging.client.sent.messages",
        "messaging.process.duration",
        "bus.task.duration",
    } <= receiver.metrics


async def test_once_exports_what_is_there_and_ends(nats_server: NatsServer, tmp_path: Path) -> None:
    """For a cron job: to the end of the log, with an exit code."""
    async with connect(nats_server.url, name="user") as user:
        await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        (task,) = await asked(user, 1)
        with otlp_receiver() as receiver:
            done = await trace(nats_server.url, receiver.url, tmp_path, "--once", "--exporter=once")
            _, err = await done.communicate()

            assert done.returncode == 0, err
            assert received(receiver, task) == await replayed(user, task)
        (port,) = free_ports(1)
        away = await trace(
            nats_server.url, f"http://127.0.0.1:{port}", tmp_path, "--once", "--exporter=away"
        )
        _, err = await away.communicate()
    assert away.returncode == 1
    assert b"no collector at" in err
    assert b"bus up --jaeger" in err
    assert b"Traceback" not in err


async def test_a_wrong_url_is_told_before_anything_happens(tmp_path: Path) -> None:
    """Wrong use has an exit code of its own."""
    wrong = await trace("nats://127.0.0.1:1", "127.0.0.1:4318", tmp_path)
    _, err = await wrong.communicate()
    assert wrong.returncode == 2
    assert b"no URL of a collector" in err


async def test_a_run_is_sent_from_a_file_and_the_link_is_said() -> None:
    """No server is needed; every span arrives, and the headers that were asked for."""
    with otlp_receiver() as receiver:
        ran = await asyncio.to_thread(
            busreplay,
            "--file",
            REPORT,
            "--otlp",
            receiver.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b",
        )
    assert ran.returncode == 0, ran.stderr
    assert b"32 spans sent to " in ran.stdout
    assert f"in Jaeger: http://127.0.0.1:16686/trace/{REPORT_TASK}".encode() in ran.stdout
    assert len(receiver.spans) == 32
    assert {service for service, _ in receiver.spans} == {
        "answer",
        "coder",
        "document",
        "planner",
        "threadbus",
        "user",
    }
    assert {name.lower(): value for name, value in receiver.headers[0].items()}["x-key"] == "a b"


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "HTTP 404); is it OTLP over HTTP"), (200, "3 spans: full")],
)
async def test_a_collector_that_refuses_is_told(status: int, says: str) -> None:
    """Also one that takes only a part."""
    with otlp_receiver() as receiver:
        receiver.status = status
        if status == 200:
            receiver.refuse_some(3, "full")
        ran = await asyncio.to_thread(busreplay, "--file", REPORT, "--otlp", receiver.url)
    assert ran.returncode == 1
    assert says in ran.stderr.decode()


async def test_otlp_json_has_the_same_spans() -> None:
    """One document for the upload of Jaeger's page, with hex ids and numbers as strings."""
    ran = await asyncio.to_thread(busreplay, "--file", REPORT, "--format", "otlp-json")
    document = json.loads(ran.stdout)
    spans = [
        span
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    source = FileSource(REPORT)
    run = trace_run(source.read(TaskId(REPORT_TASK)), examine=RunExaminer)
    expected = [span async for group in run for span in group]

    assert {(s["spanId"], s["parentSpanId"], s["name"], s["startTimeUnixNano"]) for s in spans} == {
        (s.id, s.parent or "", s.name, str(s.start)) for s in expected
    }
    assert {span["traceId"] for span in spans} == {REPORT_TASK}


async def test_a_trace_is_whole() -> None:
    """What would cut it is refused, with the way out where there is one."""
    words = ["1234", "--otlp", "http://127.0.0.1:4318", "--agent=coder"]
    ran = await asyncio.to_thread(busreplay, *words)
    assert ran.returncode == 2
    assert b"trace" in ran.stderr
