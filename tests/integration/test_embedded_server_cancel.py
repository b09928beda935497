"""Cancelling a start, a stop or a whole life: nothing is left running."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.embedded_servers import (
    PATIENCE_S,
    eventually,
    is_gone,
    loop_turns,
    make_slow_server,
)
from threadbus.bus.server import BINARY_VARIABLE, EmbeddedServer
from threadbus.bus.server_errors import (
    ServerStateError,
)


def test_cancelling_a_start_kills_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that is cancelled before the server is ready leaves no process behind."""
    monkeypatch.setenv(BINARY_VARIABLE, str(make_slow_server(tmp_path)))
    data = tmp_path / "data"

    async def enter() -> None:
        async with EmbeddedServer(data):
            raise AssertionError("this server is never ready")

    async def scenario() -> None:
        entering = asyncio.create_task(enter())
        started = data / "started"
        await eventually(lambda: started.exists() and started.read_text() != "", "a child")
        pid = int(started.read_text())
        assert not is_gone(pid)
        entering.cancel()

        with pytest.raises(asyncio.CancelledError):
            await entering
        assert is_gone(pid)

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(0, 48, 4))
def test_cancelling_at_any_moment_leaves_nothing(tmp_path: Path, turns: int) -> None:
    """Wherever a cancellation hits the start of a real server, its folder is free afterwards."""

    async def enter() -> None:
        async with EmbeddedServer(tmp_path):
            await asyncio.Event().wait()

    async def scenario() -> None:
        entering = asyncio.create_task(enter())
        await loop_turns(turns)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

        async with EmbeddedServer(tmp_path) as server:
            assert server.is_running

    asyncio.run(scenario())


def test_cancelling_while_leaving_still_ends_the_server() -> None:
    """A cancellation during the stop kills the server and removes its folder."""

    async def hold(server: EmbeddedServer, entered: asyncio.Event, leave: asyncio.Event) -> None:
        async with server:
            entered.set()
            await leave.wait()

    async def scenario() -> None:
        server = EmbeddedServer(stop_timeout=timedelta(seconds=PATIENCE_S))
        entered, leave = asyncio.Event(), asyncio.Event()
        holding = asyncio.create_task(hold(server, entered, leave))
        await entered.wait()
        pid = server.pid
        # Stopped: SIGTERM is not handled, so the stop hangs until it is cancelled.
        os.kill(pid, signal.SIGSTOP)
        leave.set()
        await loop_turns(1)
        holding.cancel()

        with pytest.raises(asyncio.CancelledError):
            await holding
        assert is_gone(pid)
        assert not server.data.exists()

    asyncio.run(scenario())


def test_closing_while_another_task_starts_ends_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aclose() makes a start that hangs in another task give up, and no process is left."""

    async def scenario() -> None:
        server = EmbeddedServer(tmp_path / "data")
        async with server:
            await server.kill()
            monkeypatch.setenv(BINARY_VARIABLE, str(make_slow_server(tmp_path)))
            starting = asyncio.create_task(server.start())
            started = server.data / "started"
            await eventually(lambda: started.exists() and started.read_text() != "", "a child")
            pid = int(started.read_text())
            await server.aclose()

            with pytest.raises(ServerStateError, match="closed"):
                await starting
            assert is_gone(pid)

    asyncio.run(scenario())
