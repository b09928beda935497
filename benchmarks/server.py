"""A server of its own for each benchmark: what a user of threadbus would run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from threadbus.bus.server import EmbeddedServer


@asynccontextmanager
async def private_server() -> AsyncGenerator[str]:
    """Run a server on a free port with a temporary folder; yields its URL."""
    async with EmbeddedServer() as server:
        yield server.url
