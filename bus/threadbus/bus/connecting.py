"""``connect``: the only way into a bus on a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from threadbus.bus._nats.backend import open_backend
from threadbus.bus.bus import Bus
from threadbus.bus.connection import opened
from threadbus.bus.settings import BusSettings
from threadbus.schemas import parse_agent_name


@asynccontextmanager
async def connect(
    where: str | BusSettings | None = None, *, name: str | None = None, ensure: bool = True
) -> AsyncGenerator[Bus]:
    """Open a bus: ``async with connect("nats://127.0.0.1:4222", name="web") as bus``.

    Entering connects, checks the server, and makes the streams that are missing. Leaving normally
    waits for outstanding appends, at most ``drain_timeout``; leaving by an exception does not.

    Args:
        where: the URL, or all settings; ``BUS_…`` variables and the defaults when absent.
        name: who speaks; the one in the settings when absent.
        ensure: make the streams that are missing; without it this only looks.

    Raises:
        ConnectError: on entering; the subclass says what is wrong with the server.
        InvalidNameError: the name is outside the grammar.
        InvalidSettingError: a ``BUS_…`` variable has a value that it cannot take.
    """
    settings = where if isinstance(where, BusSettings) else BusSettings.from_env(url=where)
    speaker = parse_agent_name(settings.name if name is None else name)
    async with open_backend(settings, speaker) as backend:
        if ensure:
            await backend.ensure()
        with opened(backend) as connection:
            yield Bus(connection, settings, speaker)
            await backend.drain(settings.drain_timeout)
