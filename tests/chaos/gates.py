"""Faults of gateways and of the exporter, and of the requests that come to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from tests.chaos.history import Journal, Phase
from tests.chaos.mangling import mangling
from tests.chaos.stage import TEAM, Stage
from tests.chaos.verdict import Breach, Verdict
from tests.chaos.waiting import pass_time
from tests.support.a2a_gateway import Client as A2aClient
from tests.support.a2a_gateway import message
from tests.support.cli import Cli, line_with, start
from tests.support.jaeger import free_ports
from tests.support.mcp_processes import host, token
from tests.support.otlp_receiver import Receiver, otlp_receiver
from threadbus.bus import Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.gateways.a2a.ids import event_of, task_of
from threadbus.replay.tracing.examining import RunExaminer
from threadbus.replay.tracing.otlp import encode_span
from threadbus.replay.tracing.run import trace_run
from threadbus.schemas import AgentCard, AgentName, TaskId, TaskStatus, parse_event_id

_GUEST: Final = AgentName("a2a-guest")
_HOST: Final = "ada"
_CALLERS: Final = 3
_TRIES: Final = 40
_REST_S: Final = 0.2
_CALL_S: Final = 15.0
_SPANS_S: Final = 60.0
_REPLAYED: Final = 200


class Service:
    """A command of ours that keeps its port over a kill."""

    def __init__(self, cli: Cli, ready: str, *words: str) -> None:
        self._cli = cli
        self._ready = ready
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._draining: list[asyncio.Task[bytes]] = []

    async def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self._process = await start(*self._words, env=self._cli.env)
        if self._ready:
            await line_with(self._process, self._ready)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._draining.append(asyncio.create_task(stream.read()))

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._draining:
            await asyncio.wait(self._draining)
            self._draining.clear()


@asynccontextmanager
async def _serving(*services: Service) -> AsyncGenerator[None]:
    try:
        for service in services:
            await service.start()
        yield
    finally:
        for service in services:
            await service.kill()


async def gateways_killed(stage: Stage) -> Verdict:
    """`kill -9` of the A2A and the MCP gateway under clients that ask again until they know."""
    async with EmbeddedServer() as server, stage.team(server.url):
        cli = Cli(server.url, stage.folder)
        secret = await token(cli, stage.folder, _HOST)
        a2a_port, mcp_port = free_ports(2)
        a2a = _a2a_gateway(cli, a2a_port)
        mcp = _mcp_gateway(cli, mcp_port, stage.folder)
        async with _serving(a2a, mcp), AsyncExitStack() as stack:
            await _ask_over_a2a(stage, stack, f"http://127.0.0.1:{a2a_port}")
            task = await _say_over_mcp(
                stage, stack, cli, f"http://127.0.0.1:{mcp_port}/mcp", secret
            )
            async with stage.writing(server.url, count=1):
                while await stage.rest(1.0, 4.0):
                    victim = stage.chance.choice([a2a, mcp])
                    await victim.kill()
                    await stage.rest(0.0, 0.5)
                    await victim.start()
                    stage.count("A2A gateway killed" if victim is a2a else "MCP gateway killed")
        await _close(stage, server.url, task)
        return await stage.settle(server.url, [stage.folder / f"{_HOST}.told.jsonl"])


def _a2a_gateway(cli: Cli, port: int) -> Service:
    words = ("gateway", "a2a", "--http", f"127.0.0.1:{port}", "--json")
    team = [word for name in TEAM for word in ("--team", name)]
    return Service(cli, '"card"', *words, *team)


def _mcp_gateway(cli: Cli, port: int, folder: Path) -> Service:
    words = ("gateway", "mcp", "--http", f"127.0.0.1:{port}", "--json")
    return Service(cli, '"url"', *words, "--tokens", str(folder / "tokens.json"))


async def _ask_over_a2a(stage: Stage, stack: AsyncExitStack, url: str) -> None:
    """Ask questions over A2A for as long as the faults last, with a journal."""
    journal = stack.enter_context(Journal(stage.journal(_GUEST)))
    http = await stack.enter_async_context(
        httpx.AsyncClient(timeout=_CALL_S, limits=httpx.Limits(max_keepalive_connections=0))
    )
    client = A2aClient(url, http)

    async def ask(caller: int) -> None:
        number = 0
        while not stage.over.is_set():
            number += 1
            message_id = f"chaos-{stage.seed}-{caller}-{number}"
            task, event = task_of(_GUEST, message_id), event_of(_GUEST, message_id, "open")
            journal.note(Phase.INVOKE, event, task=task)
            for _ in range(_TRIES):
                at_once = {"returnImmediately": True}
                sent = message(message_id, f"q {message_id}", configuration=at_once)
                try:
                    answer = await client.call("SendMessage", sent)
                except (httpx.HTTPError, ValueError) as error:
                    journal.note(Phase.INFO, event, task=task, why=repr(error))
                    await pass_time(_REST_S)
                    continue
                if "result" in answer:
                    journal.note(Phase.OK, event, task=TaskId(answer["result"]["task"]["id"]))
                    break
                journal.note(Phase.INFO, event, task=task, why=str(answer["error"]))
                await pass_time(_REST_S)
            await pass_time(_REST_S)

    await _in_background(stack, *(_bound(ask, caller) for caller in range(_CALLERS)))


def _bound(act: Callable[[int], Awaitable[None]], caller: int) -> Callable[[], Awaitable[None]]:
    return lambda: act(caller)


async def _say_over_mcp(
    stage: Stage, stack: AsyncExitStack, cli: Cli, url: str, secret: str
) -> TaskId:
    """Post messages over MCP into one super-task, each until an answer comes; return the task."""
    stage.outside.add(_HOST)
    journal = stack.enter_context(Journal(stage.folder / f"{_HOST}.told.jsonl"))
    async with connect(stage.settings(cli.url), name="user") as bus:
        await bus.registry.register(AgentCard(name="user"), holder="chaos")
        with suppress(Exception):
            await bus.acting_as(_HOST).registry.register(AgentCard(name=_HOST), holder="chaos")
        opened = await bus.tasks.open("Talk", to=[], participants=[_HOST, "middle"])
    task = opened.event.task

    async def say(number: int) -> None:
        arguments: dict[str, Any] = {
            "thread_id": f"{task}/main",
            "content": str(number),
            "mentions": ["middle"] if number % 3 == 0 else [],
            "idempotency_key": f"n{number}",
        }
        for _ in range(_TRIES):
            try:
                async with asyncio.timeout(_CALL_S), host(url, secret) as one:
                    sent = await one.call("send_message", **arguments)
            except (Exception, BaseExceptionGroup):
                await pass_time(_REST_S)
                continue
            journal.note(Phase.OK, parse_event_id(sent["message_id"]), task=task)
            return

    async def talk() -> None:
        number = 0
        while not stage.over.is_set():
            number += 1
            await say(number)

    await _in_background(stack, talk)
    return task


async def _in_background(stack: AsyncExitStack, *acts: Callable[[], Awaitable[None]]) -> None:
    """Run until they end by themselves, which they do when the faults are over."""

    async def run(act: Callable[[], Awaitable[None]]) -> None:
        await act()

    tasks = [asyncio.create_task(run(act), name="chaos.caller") for act in acts]

    async def end() -> None:
        await asyncio.wait(tasks, timeout=_CALL_S * 2)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    stack.push_async_callback(end)


async def _close(stage: Stage, url: str, task: TaskId) -> None:
    async with connect(stage.settings(url), name="user") as bus:
        await bus.tasks.close(task, TaskStatus.COMPLETED, summary="the scenario is over")


async def requests_mangled(stage: Stage) -> Verdict:
    """HTTP requests come twice, late or out of order, or their answers get lost; so do publishes.

    What was published to the log is published again, byte for byte with its headers, shuffled.
    """
    async with EmbeddedServer() as server, stage.team(server.url):
        cli = Cli(server.url, stage.folder)
        (port,) = free_ports(1)
        async with (
            _serving(_a2a_gateway(cli, port)),
            mangling(f"http://127.0.0.1:{port}", stage.chance) as (mangler, url),
            AsyncExitStack() as stack,
        ):
            await _ask_over_a2a(stage, stack, url)
            raw = Client()
            recorded: list[Msg] = []

            async def record(msg: Msg) -> None:
                recorded.append(msg)

            await raw.connect(server.url)
            stack.push_async_callback(raw.close)
            await raw.subscribe("bus.>", cb=record)  # pyright: ignore[reportUnknownMemberType]
            async with stage.writing(server.url, count=2):
                while await stage.rest(0.2, 1.0):
                    # The recorder hears its own copies: only what was heard by now is sent again.
                    again = stage.chance.sample(recorded, min(20, len(recorded)))
                    for msg in again:
                        await _publish_again(raw, msg)
                        stage.count("published again")
                    recorded.clear()
        for what, times in mangler.counts.items():
            stage.count(f"request {what}", times)
        return await stage.settle(server.url)


async def _publish_again(raw: Client, msg: Msg) -> None:
    with suppress(NatsError, TimeoutError):
        await raw.publish(msg.subject, msg.data, headers=dict(msg.headers or {}))


async def exporter_killed(stage: Stage) -> Verdict:
    """`kill -9` of `bus trace`; in the end the collector has each span that a replay computes."""
    async with EmbeddedServer() as server, stage.team(server.url):
        cli = Cli(server.url, stage.folder)
        with otlp_receiver() as receiver:
            exporter = Service(cli, "", "trace", "--otlp", receiver.url, "--url", server.url)
            async with _serving(exporter):
                async with stage.writing(server.url, count=2):
                    while await stage.rest(0.5, 4.0):
                        await exporter.kill()
                        await exporter.start()
                        stage.count("exporter killed")
                verdict = await stage.settle(server.url)
                async with connect(stage.settings(server.url), name="checker") as bus:
                    await _check_spans(stage, verdict, bus, receiver)
        return verdict


async def _check_spans(stage: Stage, verdict: Verdict, bus: Bus, receiver: Receiver) -> None:
    tasks = [one.task for one in await bus.tasks.list(limit=_REPLAYED)]
    wanted = {task: await _spans_of(bus, task) for task in tasks}
    deadline = asyncio.get_running_loop().time() + _SPANS_S
    while True:
        came = await asyncio.to_thread(_received, receiver)
        missing = {task: spans - came for task, spans in wanted.items() if spans - came}
        if not missing or asyncio.get_running_loop().time() > deadline:
            break
        await pass_time(1.0)
    stage.count("spans", sum(len(spans) for spans in wanted.values()))
    for task, spans in missing.items():
        text = f"{len(spans):,} of {len(wanted[task]):,} spans never came to the collector"
        verdict.add(Breach.INCOMPLETE, text, task)


def _received(receiver: Receiver) -> set[bytes]:
    return {span.SerializeToString(deterministic=True) for _, span in receiver.spans}


async def _spans_of(bus: Bus, task: TaskId) -> set[bytes]:
    run = trace_run(bus.read(task), examine=RunExaminer)
    return {encode_span(span) async for group in run for span in group}
