"""Who may do what where the log and the inboxes are several streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.access import Secured
from tests.support.bus_env import events_of, receive, take
from threadbus.bus import Bus, BusSettings, PermissionDeniedError, access, connect, server
from threadbus.bus._nats.backend import open_backend
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    MessagePosted,
    TaskId,
    TextPart,
    encode_event,
    make_event,
    new_task_id,
    partition_of,
    partition_of_seq,
)

PARTITIONS, INBOXES = 3, 4


@asynccontextmanager
async def secured_and_spread(path: Path) -> AsyncGenerator[tuple[Secured, Bus]]:
    """A server with a tenant of several streams, which its operator has made."""
    folder = access.AccessFolder(path / "auth")
    await folder.init(partitions=PARTITIONS, inboxes=INBOXES)
    for name in ("web", "doc"):
        await folder.add(name, access.Role.AGENT)
    await folder.add("exporter", access.Role.OBSERVER, can=[access.Extra.POSITIONS])
    await folder.add("desk", access.Role.GATEWAY, acts_for=["*"])
    limits = server.ServerSettings(access=folder.config)
    async with server.EmbeddedServer(path / "data", settings=limits) as running:
        made = Secured(folder, running)
        settings = replace(made.settings("operator"), partitions=PARTITIONS, inboxes=INBOXES)
        async with connect(settings, name="user") as user:
            for name in ("user", "web", "doc"):
                await user.registry.register(AgentCard(name=name), holder="test")
            # The bucket of the positions is made by the first who needs it.
            async with user.consuming("made-once", partition=0):
                yield made, user


async def everywhere(user: Bus) -> list[TaskId]:
    """Open a super-task in each partition."""
    found: dict[int, TaskId] = {}
    while len(found) < PARTITIONS:
        task = new_task_id()
        if found.setdefault(partition_of(task, PARTITIONS), task) == task:
            await user.tasks.open("What is it?", to=["web"], participants=["doc"], task=task)
    return list(found.values())


async def test_an_agent_works_with_its_own_key_in_every_partition(tmp_path: Path) -> None:
    """It is woken from its stream of inboxes, answers, reads, and an observer exports each part."""
    async with secured_and_spread(tmp_path) as (made, user):
        tasks = await everywhere(user)
        for key in ("web", "desk"):
            async with made.bus(key) as own:
                web = own.acting_as("web")
                for task in tasks:
                    await user.send(task, MAIN_THREAD, "And now?", mentions=["web"])
                async with web.inbox(fresh=True) as inbox:
                    expected = len(tasks) * (2 if key == "web" else 1)
                    woken = await receive(inbox, expected)
                assert {delivery.event.task for delivery in woken} == set(tasks)
                seqs = [(await web.send(t, MAIN_THREAD, "Soon.")).seq for t in tasks]
                assert {partition_of_seq(seq) for seq in seqs} == set(range(PARTITIONS))
        async with made.bus("exporter") as exporter:
            for number in range(PARTITIONS):
                async with exporter.consuming("exporter", partition=number) as consumer:
                    entries = await take(consumer, 5)
                    await consumer.commit(entries[-1].seq)
            with pytest.raises(PermissionDeniedError):
                await exporter.acting_as("web").send(tasks[0], MAIN_THREAD, "Me too.")


async def test_nobody_speaks_or_hears_as_another(tmp_path: Path) -> None:
    """Whatever partition is named, a sender is forged in none; nor is another's inbox opened."""
    async with secured_and_spread(tmp_path) as (made, user):
        task = (await everywhere(user))[0]
        event = make_event(
            MessagePosted(parts=(TextPart("Pay."),)),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("doc"),
            mentions=(AgentName("web"),),
        )
        before = await events_of(user, task)
        async with made.bus("web") as web:
            forger = web.acting_as("doc")
            with pytest.raises(PermissionDeniedError, match="doc"):
                await forger.send(task, MAIN_THREAD, "Pay.", mentions=["web"])
            with pytest.raises(PermissionDeniedError):
                async with forger.inbox():
                    pass
        settings = BusSettings(url=made.server.url, nkey=made.settings("web").nkey)
        async with open_backend(settings, "web") as raw:
            for number in range(PARTITIONS):
                sent = await raw.log.append(
                    f"part.{number}.{event.subject.removeprefix('bus.')}",
                    encode_event(event),
                    msg_id=event.id,
                    guard=None,
                    headers={},
                    timeout=settings.append_timeout,
                )
                with pytest.raises(PermissionDeniedError, match=r"part\..* doc"):
                    await sent

        assert await events_of(user, task) == before
