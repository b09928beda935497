"""Clients and servers that others wrote, in both directions: the JavaScript SDK and version 0.3."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import gateway
from tests.support.require import require
from tests.support.running_agents import find, log_of
from threadbus.bus import BusSettings, connect
from threadbus.gateways.a2a import following
from threadbus.gateways.a2a.joining import join
from threadbus.gateways.a2a.receiving import receiving
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.web.serving import Address
from threadbus.schemas import AgentName, ArtifactAdded, InputRequested

PROGRAMS = Path(__file__).parents[1] / "peers"
REMOTE = AgentName("peer")
DEADLINE_S = 60.0
HERE_NOT = "none"
"""CI sets it for the Pythons on which the peers are not run again."""


@pytest.fixture
def peers() -> Path:
    """Where `.ci/a2a.sh` has installed the peers."""
    folder = os.environ.get("THREADBUS_A2A_PEERS", "")
    if folder == HERE_NOT:
        pytest.skip("the peers run on one Python")
    require("A2A peers (source .ci/a2a.sh; install_a2a_peers)", folder)
    return Path(folder)


def _words(peers: Path, program: str) -> tuple[list[str], dict[str, str]]:
    """Return how a program is started."""
    if program.endswith(".cjs"):
        env = {**os.environ, "NODE_PATH": str(peers / "node" / "node_modules")}
        return ["node", str(PROGRAMS / program)], env
    return [str(peers / "old" / "bin" / "python"), str(PROGRAMS / program)], dict(os.environ)


async def _drive(peers: Path, program: str, *arguments: str) -> dict[str, Any]:
    """Run a client to its end and return what it saw."""
    words, env = _words(peers, program)
    process = await asyncio.create_subprocess_exec(
        *words, *arguments, stdout=PIPE, stderr=PIPE, env=env
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    seen: dict[str, Any] = json.loads(out)
    return seen


@asynccontextmanager
async def _server(peers: Path, program: str) -> AsyncGenerator[str]:
    """Run a server for as long as the context lasts; give its URL."""
    words, env = _words(peers, program)
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, env=env)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_client(bus_url: str, peers: Path, binding: str) -> None:
    """It streams, answers a question, reads, lists, and is told what cannot be cancelled."""
    async with gateway(bus_url, tck) as (client, _):
        seen = await _drive(peers, "a2a_client.cjs", client.url, binding)

    assert seen["states"] == ["submitted", "working", "completed"]
    assert seen["pieces"] == ["chunk-1 ", "chunk-2", "done"]
    assert (seen["asked"], seen["done"], seen["read"]) == (
        "input-required",
        "completed",
        "completed",
    )
    assert seen["sameContext"]
    assert seen["listed"]
    assert "NotCancelable" in seen["cancel"]


async def test_a_client_of_0_3(bus_url: str, peers: Path) -> None:
    """A client that knows nothing of 1.0 streams and answers a question."""
    async with gateway(bus_url, tck) as (client, _):
        seen = await _drive(peers, "a2a_old_client.py", client.url)

    assert seen["states"] == ["submitted", "working", "completed"]
    assert seen["pieces"] == ["chunk-1 ", "chunk-2", "done"]
    assert (seen["asked"], seen["done"]) == ("input-required", "completed")


@pytest.mark.parametrize(
    ("program", "push"),
    [("a2a_server.cjs", False), ("a2a_server.cjs", True), ("a2a_old_server.py", False)],
)
async def test_servers_of_others_take_part(
    bus_url: str, peers: Path, monkeypatch: pytest.MonkeyPatch, program: str, push: bool
) -> None:
    """A server of another SDK, or of 0.3, answers on the bus, with artifacts and a question."""
    stop, ready = asyncio.Event(), asyncio.Event()
    settings = BusSettings(url=bus_url, drain_timeout=timedelta(seconds=0.1))
    async with (
        _server(peers, program) as url,
        connect(settings, name="user") as bus,
        receiving(Address("127.0.0.1", 0)) as bells,
    ):
        if push:
            # Nothing but its notifications tells of what happens.
            monkeypatch.setattr(following, "_FIRST_PAUSE_S", 1000.0)
        remote = RemoteAgent(url)
        joining = join(
            settings,
            remote,
            REMOTE,
            stop,
            on_ready=ready.set,
            bells=bells if push else None,
        )
        work = asyncio.create_task(joining)
        try:
            await ready.wait()
            answer = await bus.ask("hello", to=[REMOTE])
            events = await log_of(bus, answer.task)
            task = (await bus.tasks.open("ask", to=[REMOTE])).event.task
            await find(bus, task, InputRequested)
            await bus.tasks.give_input(task, "net")
            second = await bus.waits.for_answer(task, timeout=timedelta(seconds=30))
        finally:
            stop.set()
            await work

    names = [event.data.name for event in events if isinstance(event.data, ArtifactAdded)]
    assert (answer.text, second.text) == ("heard hello", "heard net")
    assert names == ["notes"]
