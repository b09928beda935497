"""York's team called over A2A by a client whose gateway is killed twice: one run, nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx
import msgspec

from tests.support.a2a_gateway import PATIENCE_S, Client, message
from tests.support.busreplay import busreplay
from tests.support.cli import Cli, line_with, process
from tests.support.model_servers import settings_for
from tests.support.running_agents import log_of, ready
from threadbus.agents import Agent, AgentRunner
from threadbus.agents.model import Model
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.york import collaboration, semantic, solution, syntax
from threadbus.agents.teams.york.script import SCRIPT
from threadbus.bus import Bus, connect
from threadbus.gateways.a2a.commands import Serving
from threadbus.schemas import AgentCard, InputGiven, TaskId, text_of

TEAM = ("collaboration", "solution", "syntax", "semantics")
OTHERS = (collaboration.agent, syntax.agent, semantic.agent)
OUTER, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
Json = dict[str, Any]


class Caller:
    """A client that only knows an address, and what it has seen."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.url = ""
        self.seen: list[Json] = []
        self.task = ""

    async def ask(self, pid: int) -> None:
        """Send the request, and see the first update; then the gateway dies under the stream."""
        client = Client(self.url, self._http)
        asked = message("york", text_of(SCRIPT.question()), contextId="library")
        trace = {"traceparent": f"00-{OUTER}-{SPAN}-01"}
        async with client.stream("SendStreamingMessage", asked, headers=trace) as stream:
            self.task = (await anext(stream))["task"]["id"]
            self.seen.append(await anext(stream))
            os.kill(pid, signal.SIGKILL)
            with suppress(httpx.HTTPError):
                self.seen += [event async for event in stream]

    async def go_on(self, until: str = "") -> None:
        """Take up what came after the last update, until a state or the end."""
        client = Client(self.url, self._http)
        last = {"Last-Event-ID": self.seen[-1]["id"]}
        async with client.stream("SubscribeToTask", {"id": self.task}, headers=last) as stream:
            await anext(stream)
            async for event in stream:
                self.seen.append(event)
                if until and until in json.dumps(event):
                    return

    async def answer(self) -> None:
        """Answer the question."""
        config = {"returnImmediately": True}
        sent = message("reply", SCRIPT.replies[0], taskId=self.task, configuration=config)
        # Twice, as a client does that did not hear the answer to the first.
        for _ in range(2):
            await Client(self.url, self._http).result("SendMessage", sent)

    async def everything(self) -> list[Json]:
        """Return every update, from the log."""
        client, first = Client(self.url, self._http), {"Last-Event-ID": "0.0"}
        async with client.stream("SubscribeToTask", {"id": self.task}, headers=first) as stream:
            return [event async for event in stream if "task" not in event]


@asynccontextmanager
async def served(cli: Cli, caller: Caller) -> AsyncGenerator[int]:
    """Run the gateway in a process of its own, always at one address; give its id."""
    address = caller.url.removeprefix("http://") or "127.0.0.1:0"
    team = [word for name in TEAM for word in ("--team", name)]
    words = ("gateway", "a2a", "--http", address, *team, "--json")
    async with process(*words, env=cli.env) as running:
        serving = msgspec.json.decode(await line_with(running, '"card"'), type=Serving)
        caller.url = serving.url
        yield serving.pid


async def at_work(stack: AsyncExitStack, agent: Agent, bus: Bus, model_url: str) -> None:
    """Run an agent until the end of the context."""
    model = await stack.enter_async_context(Model(settings_for(model_url), agent=agent.name))
    runner = AgentRunner(agent, bus.acting_as(agent.name), model=model, takeover=True)
    work = asyncio.create_task(runner.run(), name=f"test.{agent.name}")

    async def stop() -> None:
        runner.stop()
        await asyncio.wait({work})

    stack.push_async_callback(stop)
    await ready(runner, work)


async def test_every_update_once_over_two_kills(cli: Cli) -> None:
    """Killed before and after the question: the client sees each update once, in one trace."""
    async with AsyncExitStack() as stack:
        playbook = await stack.enter_async_context(PlaybookServer(SCRIPT.playbook))
        bus = await stack.enter_async_context(connect(cli.url, name="test"))
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S))
        # Known, but not at work before the first kill: more is to come after it.
        await bus.registry.register(AgentCard(name="solution"), holder="test")
        for agent in OTHERS:
            await at_work(stack, agent, bus, playbook.base_url)
        caller = Caller(http)
        async with served(cli, caller) as pid:
            await caller.ask(pid)
        await at_work(stack, solution.agent, bus, playbook.base_url)
        async with served(cli, caller) as pid:
            await caller.go_on("TASK_STATE_INPUT_REQUIRED")
            await caller.answer()
            os.kill(pid, signal.SIGKILL)
        async with served(cli, caller):
            await caller.go_on()
            everything = await caller.everything()
        log = await log_of(bus, TaskId(caller.task))
        run, spans = await asyncio.gather(
            asyncio.to_thread(busreplay, caller.task, BUS_URL=cli.url),
            asyncio.to_thread(busreplay, caller.task, "--format", "otlp-json", BUS_URL=cli.url),
        )

    states = [
        event["statusUpdate"]["status"]["state"] for event in everything if "statusUpdate" in event
    ]
    assert caller.seen == everything
    assert states.count("TASK_STATE_INPUT_REQUIRED") == 1
    assert states[-1] == "TASK_STATE_COMPLETED"
    answers = [event["artifactUpdate"] for event in everything if "artifactUpdate" in event]
    assert "after attempt 3" in json.dumps(answers[-1])
    assert run.returncode == 0
    told = run.stdout.decode()
    for name in (*TEAM, "a2a-guest", "May a book have several writers?"):
        assert name in told
    assert sum(isinstance(event.data, InputGiven) for event in log) == 1
    told_spans: Json = json.loads(spans.stdout)
    found = traces(told_spans)
    assert {trace for trace, _ in found} == {caller.task}
    assert sum(not parent for _, parent in found) == 1
    assert len(found) > len(TEAM)
    # The caller's own trace is one step away.
    assert (OUTER, SPAN) in {(link["traceId"], link["spanId"]) for link in links(told_spans)}


def every_span(told: Json) -> list[Json]:
    """Return every span."""
    return [
        span
        for resource in told["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def traces(told: Json) -> list[tuple[str, str]]:
    """Return the trace and the parent of every span."""
    return [(span["traceId"], span.get("parentSpanId", "")) for span in every_span(told)]


def links(told: Json) -> list[Json]:
    """Return the links of the root."""
    (root,) = [span for span in every_span(told) if not span.get("parentSpanId")]
    found: list[Json] = root["links"]
    return found
