"""Whoever watches a name looks often enough: nothing that changes it is missed."""

from __future__ import annotations

from tests.support.eventually import eventually
from threadbus.bus import connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import AgentCard


async def test_who_watches_looks_again_after_a_change(bus_url: str) -> None:
    """What is heard of may not be stored yet, and a look that comes too early sees nothing new."""
    calls: list[str] = []
    async with connect(bus_url, name="looks") as bus:
        async with bus.registry.watching("watched", lambda: calls.append("")):
            await bus.registry.register(AgentCard(name="watched"), holder="a")
            await eventually(lambda: len(calls) >= 3, "it looks several times")
            await bus.registry.register(AgentCard(name="watched"), holder="a")
        heard = len(calls)
        await bus.registry.list()
    assert len(calls) == heard


async def test_who_watches_looks_after_each_reconnection() -> None:
    """What was changed while there was no connection is told by nobody."""
    calls: list[str] = []
    async with (
        EmbeddedServer() as server,
        connect(server.url, name="looks") as bus,
        bus.registry.watching("watched", lambda: calls.append("")),
    ):
        await server.kill()
        await server.start()
        await eventually(lambda: bool(calls), "it looks")
