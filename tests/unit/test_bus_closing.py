"""Leaving a bus while its connection comes and goes: nothing is left open, nothing is raised."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from threadbus.bus._nats.client import DirectClient

_INFO = b'INFO {"server_id":"x","version":"2.12.0","max_payload":1048576,"headers":true}\r\n'
_ROUNDS: Final = 60
_OPTIONS: Final[dict[str, Any]] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.003}
"""The wait is typed as whole seconds and works with fractions."""


@asynccontextmanager
async def fickle_server() -> AsyncGenerator[str]:
    """A peer that lets each third connection in for a moment, and refuses the others."""
    connections = 0
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        is_let_in = connections % 3 == 1
        writers.add(writer)
        writer.write(_INFO)
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    answer = b"PONG\r\n" if is_let_in else b""
                    writer.write(answer + b"-ERR 'User Authentication Revoked'\r\n")
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for _ in range(5):
            # What was accepted a moment ago has its handler, and its writer, after a few turns.
            await asyncio.sleep(0)
        for writer in writers:
            writer.transport.abort()


async def _look_away(_error: Exception) -> None:
    """What the peer says is not what this is about."""


async def test_leaving_between_two_connections_leaves_nothing_open() -> None:
    """At any moment of it, whether closing is given the time for it or cut short."""
    left_open: list[int] = []
    async with asyncio.timeout(60), fickle_server() as url:
        for number in range(_ROUNDS):
            client = DirectClient()
            await client.connect(url, error_cb=_look_away, **_OPTIONS)
            for _ in range(number * 10):
                # Some turns of the loop later each time: it has got so much further by then.
                await asyncio.sleep(0)
            # What was still to be sent may not reach anybody any more.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(0 if number % 3 == 0 else 10):
                    await client.close()
            transport = getattr(client, "_transport")  # noqa: B009 - not public
            if not transport._io_writer.transport.is_closing():
                left_open.append(number)

    assert left_open == []


async def test_a_cancellation_while_leaving_is_not_swallowed() -> None:
    """Who is cancelled while the connection is closed is cancelled."""
    async with asyncio.timeout(60), fickle_server() as url:
        client = DirectClient()
        await client.connect(url, error_cb=_look_away, **_OPTIONS)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
