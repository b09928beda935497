"""A log that cannot be written: nothing but the lines is lost."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from tests.support.eventually import eventually
from tests.support.proxy import Proxy, proxied
from tests.support.raw_nats import raw_client
from threadbus.bus import Bus, BusSettings, Inbox, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    EventClass,
    EventId,
    Recorded,
    Rejected,
    event_subject,
)


@pytest.fixture(autouse=True)
def _closed_log(_log_of_its_own: None) -> io.StringIO:
    """Have the log written to a stream that is closed: each line raises ValueError."""
    stream = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(stream))
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        structlog.get_logger("test").warning("a line")
    return stream


@asynccontextmanager
async def two_names() -> AsyncGenerator[tuple[Proxy, Bus, Bus]]:
    """One bus behind a proxy, and one without, on a server of their own."""
    async with (
        EmbeddedServer() as server,
        proxied(server.url) as (proxy, url),
        # What was leased to a connection that was cut comes again soon.
        connect(replace(BusSettings(), url=url, ack_wait=timedelta(seconds=1))) as far,
        connect(server.url, name="web") as near,
    ):
        for name in ("user", "web"):
            await near.registry.register(AgentCard(name=name), holder="tests")
        yield proxy, far, near


async def until_delivered(inbox: Inbox, event: EventId) -> None:
    """Take mentions until that of *event*; the acknowledgement of one before may have been cut."""
    while True:
        delivery = await inbox.next()
        await delivery.ack()
        if delivery.event.id == event:
            return


async def test_a_handler_that_fails_ends_nothing_when_the_log_is_closed() -> None:
    """What comes after the message that a handler could not take still comes."""
    seen: list[Any] = []

    def handler(_sender: str, value: Any) -> None:
        seen.append(value)
        if value == 1:
            raise RuntimeError("the handler's own")

    async with two_names() as (_, far, near):
        task = (await near.tasks.open("x", to=[])).event.task
        async with far.watching_live(task, handler):
            for value in (1, 2, 3):
                await near.publish_live(task, MAIN_THREAD, value)
            await eventually(lambda: seen == [1, 2, 3], "the live messages behind the failed one")
        # The same read loop brings answers to requests.
        assert (await far.tasks.state(task)).task == task


async def test_a_connection_comes_back_when_the_log_is_closed() -> None:
    """A lost connection is told in the log: that this fails keeps nothing from coming back."""
    async with two_names() as (proxy, far, near):
        task = (await near.tasks.open("x", to=["user"])).event.task
        async with far.inbox() as inbox:
            first = await inbox.next()
            await first.ack()
            for number in range(3):
                proxy.cut()
                await eventually(lambda: proxy.open_connections == 1, "the next connection")
                sent = await near.send(task, MAIN_THREAD, f"{number}", mentions=["user"])
                async with asyncio.timeout(30):
                    await until_delivered(inbox, sent.event.id)


async def test_bytes_that_are_no_event_lose_nothing_when_the_log_is_closed() -> None:
    """They are told in the log, and the events around them are read and delivered."""
    async with two_names() as (_, far, near):
        task = (await near.tasks.open("x", to=["user"])).event.task
        subject = event_subject(
            task, MAIN_THREAD, EventClass.MSG, AgentName("web"), (AgentName("user"),)
        )
        async with raw_client(near.settings.url) as raw:
            await raw.store(subject.encode(), b"no event")
        await near.send(task, MAIN_THREAD, "after", mentions=["user"])
        async with asyncio.timeout(30), far.inbox() as inbox:
            delivered = [await inbox.next() for _ in range(2)]
        entries = [entry async for entry in far.read(task)]

    assert [one.event.type for one in delivered] == ["task.opened", "message.posted"]
    assert any(isinstance(entry, Rejected) for entry in entries)
    assert sum(isinstance(entry, Recorded) for entry in entries) >= 2
