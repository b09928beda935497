"""A server of its own for each benchmark: what a user of threadbus would run."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from unittest.mock import patch

from threadbus.bus.server import EmbeddedServer

LIMITS: Final = {
    "BUS_EVENTS_PER_SECOND": "1000000000",
    "BUS_BURST": "1000000000",
    "BUS_MENTIONS_PER_MINUTE": "1000000000",
    "BUS_EXCHANGE": "1000000000",
}
"""What is measured here would be taken for a runaway. The limits still are looked at."""


@asynccontextmanager
async def private_server() -> AsyncGenerator[str]:
    """Run a server on a free port with a temporary folder; yields its URL.

    Whoever connects meanwhile, here or in a process that is started here, may say as much as it
    can.
    """
    with patch.dict(os.environ, LIMITS):
        async with EmbeddedServer() as server:
            yield server.url
