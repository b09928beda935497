"""A server without room, and events that are too large for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client

from tests.support.bus_env import events_of
from threadbus.bus import (
    ArtifactNotStoredError,
    Bus,
    PayloadTooLargeError,
    StorageFullError,
    connect,
)
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    MessagePosted,
    Presence,
    ReferencePart,
    TaskId,
    TextPart,
    new_event_id,
)

_ROOM = 2_000_000


@asynccontextmanager
async def small_bus() -> AsyncGenerator[tuple[Bus, TaskId]]:
    """A server with two megabytes, and a super-task in it."""
    settings = ServerSettings(max_file_store_bytes=_ROOM)
    async with EmbeddedServer(settings=settings) as server, connect(server.url) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="tests")
        opened = await bus.tasks.open("What is it?", to=[])
        yield bus, opened.event.task


async def fill(bus: Bus, task: TaskId) -> int:
    """Post until the server has no room; return how many messages went in."""
    for count in range(_ROOM // 500):
        try:
            await bus.send(task, MAIN_THREAD, "x" * 1000)
        except StorageFullError:
            return count
    raise AssertionError("the server was never full")


async def beat_until_refused(bus: Bus, beat: Presence) -> None:
    """Record heartbeats, of which each takes a little room."""
    for _ in range(100):
        await bus.registry.beat(beat)


async def test_a_full_server_refuses_events_and_still_reads() -> None:
    """The caller gets the error, nothing is half written, and everything can still be read."""
    async with small_bus() as (bus, task):
        posted = await fill(bus, task)
        with pytest.raises(StorageFullError, match="no room"):
            await bus.send(task, MAIN_THREAD, "x" * 1000)
        with pytest.raises(StorageFullError):
            await bus.tasks.open("Another?", to=[])

        assert len(await events_of(bus, task)) == posted + 1
        assert [summary.task for summary in await bus.tasks.list()] == [task]
        record = await bus.registry.get("user")
        assert record is not None
        async with connect(bus.settings) as other:
            assert len(await events_of(other, task)) == posted + 1


async def test_a_full_server_refuses_artifacts_and_entries() -> None:
    """Artifacts, registrations and heartbeats get a clear error of ours; what was there stays."""
    async with small_bus() as (bus, task):
        kept = await bus.artifacts.put(b"kept" * 1000)
        await fill(bus, task)
        with pytest.raises(ArtifactNotStoredError) as refused:
            await bus.artifacts.put(b"y" * 500_000)
        with pytest.raises(StorageFullError):
            await bus.registry.register(
                AgentCard(name="web", description="d" * 2000), holder="tests"
            )
        beat = Presence(agent="user", instance="one", holder="tests", host="h" * 200, pid=1)
        with pytest.raises(StorageFullError):
            await beat_until_refused(bus, beat)

        assert refused.value.size == 500_000
        assert await bus.artifacts.get(kept) == b"kept" * 1000
        assert [record.card.name for record in await bus.registry.list()] == ["user"]


async def test_an_artifact_that_has_no_room_leaves_nothing() -> None:
    """Its chunks are taken away again, so that a smaller one and events still have room."""
    async with small_bus() as (bus, task):
        with pytest.raises(ArtifactNotStoredError):
            await bus.artifacts.put(b"y" * 5_000_000)
        small = await bus.artifacts.put(b"z" * 300_000)
        await bus.send(task, MAIN_THREAD, "There is room.")

        assert await bus.artifacts.get(small) == b"z" * 300_000


async def test_room_that_comes_back_is_used() -> None:
    """When the operator makes room, the same connection goes on."""
    async with small_bus() as (bus, task):
        await bus.artifacts.put(b"z" * 1_000_000)
        await fill(bus, task)
        client = Client()
        await client.connect(bus.settings.url)
        await client.request("$JS.API.STREAM.PURGE.OBJ_ARTIFACTS", b"", timeout=10)
        await client.close()
        sent = await bus.send(task, MAIN_THREAD, "x" * 1000)

        assert (await events_of(bus, task))[-1].id == sent.event.id


@pytest.mark.parametrize("limit", [32 * 1024, 256 * 1024])
async def test_events_around_the_largest_payload(limit: int) -> None:
    """An event of exactly the limit goes in; one byte more is refused before it is sent."""
    settings = ServerSettings(max_payload_bytes=limit)
    async with EmbeddedServer(settings=settings) as server, connect(server.url) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="tests")
        task = (await bus.tasks.open("What is it?", to=[])).event.task

        async def post(length: int) -> int:
            parts = tuple(TextPart("x" * min(8_000, length - at)) for at in range(0, length, 8_000))
            sent = await bus.append(MessagePosted(parts=parts), task=task, event_id=new_event_id())
            return sent.seq

        low, high, smallest = 1, limit, 0
        while high - low > 1:
            length = (low + high) // 2
            try:
                await post(length)
                low = length
            except PayloadTooLargeError as error:
                assert error.limit == limit  # noqa: PT017 -- the size is looked at below
                smallest = error.size
                high = length

        assert smallest == limit + 1
        await post(low)
        with pytest.raises(PayloadTooLargeError):
            await post(low + 1)
        # The connection of everybody else was never cut for it.
        other = bus.acting_as("user")
        await other.send(task, MAIN_THREAD, "I am still here.")


async def test_large_parts_travel_over_a_small_payload() -> None:
    """Where the server takes less than a part may have, an artifact goes in smaller chunks."""
    settings = ServerSettings(max_payload_bytes=32 * 1024)
    async with EmbeddedServer(settings=settings) as server, connect(server.url) as bus:
        await bus.registry.register(AgentCard(name="user"), holder="tests")
        content = b"0123456789abcdef" * 20_000
        reference = await bus.artifacts.put(content)
        assert await bus.artifacts.get(reference) == content
        task = (await bus.tasks.open("What is it?", to=[])).event.task
        # Below the limit of a part, above that of the server.
        sent = await bus.send(task, MAIN_THREAD, "x" * 20_000)

        assert isinstance(sent.event.data, MessagePosted)
        assert isinstance(sent.event.data.parts[0], ReferencePart)
