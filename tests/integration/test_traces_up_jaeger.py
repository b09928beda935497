"""`bus up --jaeger`: a Jaeger beside the server, gone with it however that ends."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.cli import ended, environment, line_with, process
from tests.support.eventually import eventually
from tests.support.jaeger import Jaeger, free_ports
from tests.support.require import require
from threadbus.agents.cli.jaeger import find_jaeger


async def listens(port: int) -> bool:
    """Whether somebody takes connections."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_jaeger_lives_and_ends_with_the_server(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C ends both in order; killed, the command takes its Jaeger along."""
    require("a Jaeger (sh ops/jaeger.sh builds one)", find_jaeger())
    page, otlp = free_ports(2)
    words = ("up", "--port=0", f"--data={tmp_path / 'data'}", "--jaeger")
    ports = (f"--jaeger-port={page}", f"--otlp-port={otlp}")
    async with process(*words, *ports, env=environment(tmp_path)) as running:
        await line_with(running, f"Jaeger is up at http://127.0.0.1:{page}")
        there = Jaeger(f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{page}")
        assert await there.get("/api/v3/services") is not None
        running.send_signal(how)
        ran = await ended(running)
    if how is signal.SIGINT:
        assert ran.code == 0, ran.err

    async def gone() -> bool:
        return not await listens(page) and not await listens(otlp)

    await eventually(gone, "that nobody listens any more", 30)


async def test_without_one_it_is_said_what_to_do(tmp_path: Path) -> None:
    """No binary and no Docker: the ways to one are named, and no server is started."""
    bare = {"HOME": str(tmp_path)}
    bare["BUS_JAEGER"] = str(tmp_path / "jaeger")
    words = ("up", "--port=0", f"--data={tmp_path / 'data'}", "--jaeger")
    async with process(*words, env=environment(tmp_path, bare)) as running:
        ran = await ended(running)

    assert ran.code == 1
    assert "no Jaeger here" in ran.err
    assert "sh ops/jaeger.sh" in ran.err
    assert "BUS_JAEGER" in ran.err
    assert not (tmp_path / "data").exists()
