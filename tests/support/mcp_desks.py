"""MCP hosts without MCP: their desks at a gateway over a bus in memory, and their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from threadbus.bus import Bus
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.gateways.mcp.calls import Call
from threadbus.gateways.mcp.desk import Desk, Desks
from threadbus.gateways.mcp.directory import Directory
from threadbus.gateways.mcp.results import Result
from threadbus.gateways.mcp.toolbox import ALIASES, TOOLS
from threadbus.schemas import AgentCard, AgentName

R = TypeVar("R", bound=Result)


class Host:
    """One host: calls tools by name, as an MCP host does, and gets their results."""

    def __init__(self, desk: Desk, directory: Directory) -> None:
        self.desk = desk
        self.bus = desk.bus
        self._directory = directory
        self.told: list[str] = []
        """What it was told of the progress of its calls."""

    def call(self, **more: Any) -> Call:
        """Make the call that a tool gets."""

        async def tell(note: str, _: float | None) -> None:
            self.told.append(note)

        return Call(self.desk, self._directory, tell, **more)

    async def use(self, kind: type[R], tool: str, **arguments: Any) -> R:
        """Call a tool; its result has to be of *kind*."""
        return await self.use_with(kind, tool, self.call(), **arguments)

    async def use_with(self, kind: type[R], tool: str, call: Call, **arguments: Any) -> R:
        """Call a tool with a call of one's own."""
        known = TOOLS.get(tool) or ALIASES[tool]
        async with asyncio.timeout(30):
            result = await known.run(call, known.read(arguments))
        if call.at_delivery is not None:
            call.at_delivery()
        assert isinstance(result, kind)
        return result


class Hosts:
    """Hosts at one gateway process."""

    def __init__(self, bus: Bus, tasks: asyncio.TaskGroup) -> None:
        self.bus = bus
        self.directory = Directory(bus)
        self.desks = Desks(bus, tasks, lambda name: AgentCard(name=name), lambda: None)

    async def host(self, name: str) -> Host:
        """Return a host under a name."""
        return Host(await self.desks.at(AgentName(name)), self.directory)


@asynccontextmanager
async def hosts_in_memory(backend: InMemoryBackend | None = None) -> AsyncGenerator[Hosts]:
    """Give a gateway over a bus in memory; several share one where they share the backend."""
    async with (
        connect_in_memory("mcp-gateway", backend=backend) as bus,
        asyncio.TaskGroup() as tasks,
    ):
        hosts = Hosts(bus, tasks)
        try:
            yield hosts
        finally:
            hosts.desks.leave()
