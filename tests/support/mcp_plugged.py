"""Foreign MCP servers run as agents in a test, and somebody who calls their tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support import mcp_server
from threadbus.agents.model import ModelSettings
from threadbus.bus import Bus, BusSettings, connect
from threadbus.gateways.mcp.client_running import run_client
from threadbus.gateways.mcp.remote import RemoteServer, Target
from threadbus.schemas import (
    AgentCard,
    DataPart,
    Part,
    Parts,
    TaskId,
)

SERVER = Path(mcp_server.__file__)
COMMAND = (sys.executable, str(SERVER))


class Caller:
    """Somebody on the bus who calls the tools of a server by mentions."""

    def __init__(self, bus: Bus, agent: str, task: TaskId) -> None:
        self.bus = bus
        self.agent = agent
        self.task = task

    async def call(self, tool: str, **arguments: Any) -> Parts:
        """Call a tool by a data part."""
        return await self.say(DataPart({"tool": tool, "arguments": arguments}))

    async def say(self, content: str | Part | Sequence[Part]) -> Parts:
        """Mention the agent and return what it answers."""
        async with asyncio.timeout(40):
            event = await self.bus.request(
                self.task, (await self.bus.threads.state(self.task)).thread, content, to=self.agent
            )
        parts: Parts = getattr(event.data, "parts", ())
        return tuple([await self.bus.artifacts.load(part) for part in parts])

    async def is_living(self) -> bool:
        """Whether the agent runs."""
        return self.agent in [agent.name for agent in await self.bus.registry.living()]


@asynccontextmanager
async def plugged(
    url: str, name: str, target: Target, model: ModelSettings | None = None
) -> AsyncGenerator[Caller]:
    """Run a server as an agent, and somebody who may call it."""
    ready, stop = asyncio.Event(), asyncio.Event()

    def on_ready(_: RemoteServer) -> None:
        ready.set()

    settings = BusSettings(url=url, name=name)
    async with connect(url, name=f"calls-{name}") as bus, asyncio.TaskGroup() as tasks:
        await bus.registry.register(AgentCard(name=bus.name), holder="test")
        tasks.create_task(run_client(settings, target, model=model, stop=stop, on_ready=on_ready))
        try:
            async with asyncio.timeout(40):
                await ready.wait()
            opened = await bus.tasks.open("T", to=[], participants=[name])
            yield Caller(bus, name, opened.event.task)
        finally:
            stop.set()
