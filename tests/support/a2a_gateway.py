"""A gateway inside a test, an agent behind it, and a client that speaks plain JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.support.running_agents import running as running_agent
from threadbus.agents import Agent, Mention
from threadbus.bus import Bus, BusSettings, connect
from threadbus.gateways.a2a.gateway import GatewayOptions, running
from threadbus.gateways.web.serving import Address
from threadbus.schemas import AgentName, TaskStatus, TextPart

PATIENCE_S = 30.0
Json = dict[str, Any]


class Client:
    """An A2A client of one gateway that hides nothing."""

    def __init__(self, url: str, http: httpx.AsyncClient, path: str = "/rpc") -> None:
        self.url = url
        self.http = http
        self._path = path

    async def call(
        self, method: str, params: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> Json:
        """Call a method and return the whole answer."""
        response = await self.http.post(
            self.url + self._path,
            json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            headers={"A2A-Version": "1.0", **(headers or {})},
        )
        answer: Json = json.loads(response.text)
        return answer

    async def result(self, method: str, params: Mapping[str, Any], **more: Any) -> Json:
        """Call a method and return its result."""
        answer = await self.call(method, params, **more)
        assert "result" in answer, answer
        found: Json = answer["result"]
        return found

    async def error(self, method: str, params: Mapping[str, Any], **more: Any) -> Json:
        """Call a method and return its error."""
        answer = await self.call(method, params, **more)
        assert "error" in answer, answer
        found: Json = answer["error"]
        return found

    async def send(self, message_id: str, text: str = "hello", **more: Any) -> Json:
        """Send a message of one text and return the task."""
        found: Json = (await self.result("SendMessage", message(message_id, text, **more)))["task"]
        return found

    @asynccontextmanager
    async def stream(
        self, method: str, params: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[AsyncGenerator[Json]]:
        """Call a method that streams, and give its events as they come."""
        async with self.http.stream(
            "POST",
            self.url + self._path,
            json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            headers={"A2A-Version": "1.0", **(headers or {})},
        ) as response:
            yield _events(response)


async def _events(response: httpx.Response) -> AsyncGenerator[Json]:
    rest = ""
    async for text in response.aiter_text():
        rest += text
        *events, rest = rest.split("\r\n\r\n")
        for event in events:
            lines = event.split("\r\n")
            data = "".join(line[6:] for line in lines if line.startswith("data: "))
            if data:
                answer = json.loads(data)
                ids = [line[4:] for line in lines if line.startswith("id: ")]
                yield {**answer.get("result", answer), "id": ids[0] if ids else ""}


def message(message_id: str, text: str = "hello", **more: Any) -> Json:
    """Return the parameters of a message; *configuration* stands beside it."""
    config = {"configuration": more.pop("configuration")} if "configuration" in more else {}
    return {
        "message": {
            "messageId": message_id,
            "role": "ROLE_USER",
            "parts": more.pop("parts", [{"text": text}]),
            **more,
        },
        **config,
    }


@asynccontextmanager
async def gateway(
    bus_url: str, *agents: Agent, tokens: Path | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, Bus]]:
    """Run a gateway and agents; give a client, and a bus to look from."""
    async with AsyncExitStack() as stack:
        # Handlers that wait for an answer which no test gives are not waited for.
        settings = BusSettings(url=bus_url, drain_timeout=timedelta(seconds=0.1))
        bus = await stack.enter_async_context(connect(settings, name="test"))
        for agent in agents:
            await stack.enter_async_context(running_agent(agent, bus))
        team = (AgentName(agents[0].name),) if agents else ()
        served = await stack.enter_async_context(
            running(
                settings,
                GatewayOptions(
                    address=Address("127.0.0.1", 0),
                    tokens=tokens,
                    team=team,
                    stop_deadline=timedelta(seconds=2),
                    **options,
                ),
            )
        )
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S))
        yield Client(served.url, http), bus


async def until_state(client: Client, task: str, state: str) -> Json:
    """Follow a task until it is in *state*, and return it."""
    found: Json = {}

    async def look() -> None:
        nonlocal found
        while found.get("status", {}).get("state") != state:
            found = await client.result("GetTask", {"id": task})
            if found["status"]["state"] == state:
                return
            async with client.stream("SubscribeToTask", {"id": task}) as events:
                async for event in events:
                    if _state(event) == state:
                        break

    async with asyncio.timeout(PATIENCE_S):
        await look()
    return found


def _state(event: Json) -> str:
    told: Json = event.get("statusUpdate") or event.get("task") or {}
    status: Json = told.get("status", {})
    return str(status.get("state", ""))


class Stepper:
    """An agent that adds one artifact for each step that the test lets it take."""

    def __init__(self, name: str) -> None:
        self.agent = Agent(name)
        self._steps = asyncio.Semaphore(0)
        self._left = 0

        @self.agent.on_mention
        async def handle(mention: Mention) -> str:
            await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING)
            for number in range(6):
                await self._steps.acquire()
                await mention.save(f"piece {number}", TextPart(str(number)))
            return "done"

    def step(self, count: int = 1) -> None:
        """Let it take steps."""
        for _ in range(count):
            self._steps.release()


def pieces(events: list[dict[str, Any]]) -> list[str]:
    """Return the names of the artifacts that events tell of."""
    found: list[str] = []
    for event in events:
        if "task" in event:
            found += [artifact["name"] for artifact in event["task"].get("artifacts", [])]
        if "artifactUpdate" in event:
            found.append(event["artifactUpdate"]["artifact"]["name"])
    return found
