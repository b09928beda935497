"""A bus whose log and inboxes are several streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from threadbus.bus import Bus, BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import AgentCard, TaskId, new_task_id, partition_of

PARTITIONS, INBOXES = 3, 2
NAMES = ("user", "web", "doc")


def spread(url: str, partitions: int = PARTITIONS, inboxes: int = INBOXES) -> BusSettings:
    """Return settings of a spread bus."""
    return BusSettings(url=url, partitions=partitions, inboxes=inboxes)


@asynccontextmanager
async def several(
    server: EmbeddedServer, settings: BusSettings | None = None
) -> AsyncGenerator[tuple[Bus, Bus, Bus]]:
    """Connect the user, who makes the streams, and two agents that take them as they are."""
    async with (
        connect(settings or spread(server.url), name="user") as user,
        connect(server.url, name="web") as web,
        connect(server.url, name="doc") as doc,
    ):
        for name in NAMES:
            await user.registry.register(AgentCard(name=name), holder="tests")
        yield user, web, doc


async def in_each_partition(user: Bus, *to: str) -> list[TaskId]:
    """Open a super-task in each partition, in their order."""
    found: dict[int, TaskId] = {}
    while len(found) < PARTITIONS:
        task = new_task_id()
        if partition_of(task, PARTITIONS) not in found:
            await user.tasks.open("What is it?", to=to, participants=["doc"], task=task)
            found[partition_of(task, PARTITIONS)] = task
    return [found[number] for number in range(PARTITIONS)]
