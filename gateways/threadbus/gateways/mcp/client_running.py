"""``bus gateway mcp-client``: a foreign MCP server as an agent, for as long as it lives.

While the server is down the agent is not living: mentions wait for it, and whoever was waiting for
a call hears that it failed. Nothing is called twice by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from threadbus.agents import AgentRunner, stopping_on_signals
from threadbus.agents.model import Model, ModelSettings
from threadbus.bus import Bus, BusError, BusSettings, SteadyLog, connect, new_instance
from threadbus.gateways.mcp.plugged import make_agent
from threadbus.gateways.mcp.remote import RemoteServer, Target

_log: Final = SteadyLog("threadbus.gateways.mcp")


async def run_client(
    settings: BusSettings,
    target: Target,
    *,
    description: str = "",
    model: ModelSettings | None = None,
    takeover: bool = False,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[RemoteServer], None] | None = None,
) -> None:
    """Run a server as the agent that *settings* name, until SIGTERM or SIGINT.

    Args:
        settings: where the bus is, and the agent's name.
        target: where the server is.
        description: what the agent can do; what the server says of itself when empty.
        model: chooses a tool for a mention in words.
        takeover: replace whoever holds the name.
        stop: ends it; signals do when absent.
        on_ready: called each time that mentions are taken.

    Raises:
        ConnectError: there is no usable server behind the bus.
        AgentNameTakenError, AgentReplacedError: somebody else has the name.
    """
    remote = RemoteServer(target)
    async with AsyncExitStack() as stack:
        if stop is None:
            stop = asyncio.Event()
            await stack.enter_async_context(stopping_on_signals(stop.set))
        bus = await stack.enter_async_context(connect(settings))
        thinking = None
        if model is not None:
            thinking = await stack.enter_async_context(Model(model, agent=bus.name))
        keeping = asyncio.create_task(remote.run(), name=f"threadbus.mcp.remote[{target.label}]")
        try:
            shift = _Shift(bus, remote, thinking, description, takeover, on_ready)
            await shift.work_until(stop)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})


class _Shift:
    """The agent's times of work: one for each time that the server is up."""

    def __init__(
        self,
        bus: Bus,
        remote: RemoteServer,
        model: Model | None,
        description: str,
        takeover: bool,
        on_ready: Callable[[RemoteServer], None] | None,
    ) -> None:
        self._bus = bus
        self._remote = remote
        self._model = model
        self._description = description
        self._takeover = takeover
        self._on_ready = on_ready
        self._holder = new_instance()

    async def work_until(self, stop: asyncio.Event) -> None:
        """Work whenever the server is up, until *stop* is set."""
        stopped = asyncio.create_task(stop.wait(), name="threadbus.mcp.client.stop")
        try:
            while not stop.is_set():
                if self._remote.is_up:
                    await self._work(stopped)
                else:
                    await self._until_changed(stopped)
        finally:
            stopped.cancel()

    async def _work(self, stopped: asyncio.Task[bool]) -> None:
        agent = make_agent(self._bus.name, self._remote, self._description)
        runner = AgentRunner(
            agent, self._bus, model=self._model, holder=self._holder, takeover=self._takeover
        )
        # Later shifts are of the same holder: whoever took the name over meanwhile keeps it.
        self._takeover = False
        work = asyncio.create_task(runner.run(), name=f"threadbus.mcp.client[{agent.name}]")
        ready = asyncio.create_task(runner.ready.wait(), name="threadbus.mcp.client.ready")
        try:
            await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and self._on_ready is not None:
                self._on_ready(self._remote)
            while self._remote.is_up and not work.done() and not stopped.done():
                await self._until_changed(stopped, work)
                await self._show_tools()
        finally:
            ready.cancel()
            runner.stop()
            await asyncio.wait({work})
        work.result()

    async def _show_tools(self) -> None:
        """Bring the card up to what the server has now."""
        if not self._remote.is_up:
            return
        card = make_agent(self._bus.name, self._remote, self._description).card
        try:
            record = await self._bus.registry.get(card.name)
            if record is not None and record.card != card and record.holder == self._holder:
                await self._bus.registry.update(card)
        except (BusError, TimeoutError) as error:
            _log.warning("could not show the tools", agent=card.name, reason=str(error))

    async def _until_changed(self, *others: asyncio.Task[Any]) -> None:
        changed = asyncio.create_task(
            self._remote.changed(self._remote.seen), name="threadbus.mcp.client.changed"
        )
        either: set[asyncio.Task[Any]] = {changed, *others}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
