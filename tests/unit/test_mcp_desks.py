"""The desk of an MCP host: who takes its name over is seen at any time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.eventually import eventually
from tests.support.mcp_desks import hosts_in_memory
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import AgentCard


async def test_a_name_that_is_taken_over_before_its_desk_watches_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between registering and watching somebody else may take it; nothing tells of that."""
    backend = InMemoryBackend()
    watch = backend.agents.watch

    @asynccontextmanager
    async def too_late(key: str, handler: Callable[[], None]) -> AsyncGenerator[None]:
        await bus.registry.register(AgentCard(name="moving"), holder="another", takeover=True)
        async with watch(key, handler):
            yield

    async with (
        hosts_in_memory(backend) as hosts,
        connect_in_memory("looks", backend=backend) as bus,
    ):
        monkeypatch.setattr(backend.agents, "watch", too_late)
        await hosts.host("moving")
        await eventually(lambda: hosts.desks.found("moving") is None, "it is given up")
