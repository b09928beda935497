"""A foreign MCP server dies, cannot be started, or its agent is cut off in a call."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.mcp_plugged import COMMAND, SERVER, Caller, plugged
from threadbus.bus import BusSettings, MentionFailedError, connect
from threadbus.gateways.mcp.client_running import run_client
from threadbus.gateways.mcp.remote import Target
from threadbus.schemas import (
    AgentCard,
    TextPart,
)


async def test_a_server_that_dies_is_started_again(bus_url: str) -> None:
    """The call under way fails, the agent is gone for a moment, and then works as before."""
    async with plugged(bus_url, "mortal", Target(command=COMMAND, label="mortal")) as caller:
        with pytest.raises(MentionFailedError, match="mortal: "):
            await caller.call("die")
        (first, *_) = await caller.call("echo", text="back")
        assert first == TextPart("echo: back")


async def test_presence_tells_that_a_server_is_down(bus_url: str, tmp_path: Path) -> None:
    """While it cannot be started the agent is not living; a mention waits until it can."""
    switch = tmp_path / "broken"
    script = tmp_path / "server.sh"
    script.write_text(f"#!/bin/sh\n[ -e {switch} ] && exit 1\nexec {sys.executable} {SERVER}\n")
    script.chmod(0o755)
    target = Target(command=(str(script),), label="flaky")
    async with plugged(bus_url, "flaky", target) as caller:
        switch.touch()
        with pytest.raises(MentionFailedError):
            await caller.call("die")

        async def is_gone() -> bool:
            return not await caller.is_living()

        await eventually(is_gone, "the agent is not living")
        waiting = asyncio.create_task(caller.call("echo", text="patience"))
        switch.unlink()
        assert (await waiting)[0] == TextPart("echo: patience")


async def test_a_call_that_may_have_happened_is_not_repeated(bus_url: str, tmp_path: Path) -> None:
    """The agent is cut off in a call; when it is back it says so instead of calling again."""
    begun = tmp_path / "begun"
    settings = BusSettings(url=bus_url, name="cut", ack_wait=timedelta(seconds=2))
    target = Target(command=COMMAND, label="cut")
    async with connect(bus_url, name="calls-cut") as bus:
        await bus.registry.register(AgentCard(name=bus.name), holder="test")
        first = asyncio.create_task(run_client(settings, target, stop=asyncio.Event()))

        async def is_known() -> bool:
            return await bus.registry.get("cut") is not None

        await eventually(is_known, "the agent is registered")
        opened = await bus.tasks.open("T", to=[], participants=["cut"])
        caller = Caller(bus, "cut", opened.event.task)
        asking = asyncio.create_task(caller.call("hang", path=str(begun)))
        await eventually(begun.exists, "the tool has begun")
        first.cancel()
        await asyncio.wait({first})
        stop = asyncio.Event()
        again = asyncio.create_task(run_client(settings, target, stop=stop))
        with pytest.raises(MentionFailedError, match="outcome is not known"):
            await asking
        stop.set()
        await again
