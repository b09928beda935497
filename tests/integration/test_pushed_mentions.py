"""An agent that only subscribes: its mentions are pushed to a subject of its own."""

from __future__ import annotations

import asyncio
import json

import nats
from nats.aio.msg import Msg

from threadbus.bus import connect
from threadbus.schemas import AgentCard, Recorded


async def test_a_registered_agent_may_just_subscribe(bus_url: str) -> None:
    """Two subscribers in the agent's queue group get each mention once, and may acknowledge it."""
    seen: list[str] = []
    enough = asyncio.Event()

    async def on_message(message: Msg) -> None:
        seen.append(json.loads(message.data)["data"]["title"])
        await message.respond(b"+ACK")
        if len(seen) == 20:
            enough.set()

    async with connect(bus_url) as bus:
        await bus.registry.register(AgentCard(name="listener"), holder="test", push=True)
        await bus.registry.register(AgentCard(name="listener"), holder="test", push=True)
        record = await bus.registry.get("listener")
        assert record is not None
        assert record.push

        client = await nats.connect(bus_url)  # pyright: ignore[reportUnknownMemberType]
        try:
            for _ in range(2):
                await client.subscribe(  # pyright: ignore[reportUnknownMemberType]
                    "inbox.listener", queue="listener", cb=on_message
                )
            await client.flush()
            opened = [
                await bus.tasks.open(f"question {number}", to=["listener"]) for number in range(20)
            ]
            async with asyncio.timeout(20):
                await enough.wait()
                while await bus.pending_mentions():
                    await client.flush()
        finally:
            await client.close()
        entries = [entry async for entry in bus.read(opened[0].event.task)]

    assert sorted(seen) == sorted(f"question {number}" for number in range(20))
    assert all(isinstance(entry, Recorded) for entry in entries)
