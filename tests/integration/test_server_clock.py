"""The clock of the server is set while agents are connected."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from nats.aio.client import Client

from tests.chaos.needs import MissingError
from tests.chaos.server_clock import ServerClock
from tests.support.require import require
from threadbus.bus import BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    MessagePosted,
    TextPart,
    new_event_id,
    new_task_id,
)

_DEADLINE_S = 30
_HOUR_S = 3600


def _clock_of(server: EmbeddedServer) -> ServerClock:
    try:
        return ServerClock(server.pid)
    except MissingError as missing:
        require(str(missing), None)
        raise


async def test_a_mention_that_backs_off_comes_although_the_clock_went_back() -> None:
    """What waits for another attempt does not wait until the clock has caught up."""
    async with EmbeddedServer() as server:
        clock = _clock_of(server)
        clock.seconds = _HOUR_S
        settings = BusSettings(url=server.url)
        async with connect(settings, name="user") as user, connect(settings, name="web") as web:
            for bus in (user, web):
                await bus.registry.register(AgentCard(name=bus.name), holder="test")
            await user.tasks.open("hello", to=["web"])
            raw = Client()
            await raw.connect(server.url)
            try:
                subject = "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.MENTIONS.agent-web"
                given_back = await raw.subscribe(subject)  # pyright: ignore[reportUnknownMemberType]
                await raw.flush()
                async with asyncio.timeout(_DEADLINE_S), web.inbox(fresh=True) as inbox:
                    mentions = aiter(inbox)
                    first = await anext(mentions)
                    await first.nak(timedelta(seconds=1))
                    await given_back.next_msg(_DEADLINE_S)
                    clock.seconds = 0

                    again = await anext(mentions)

                    assert again.event.id == first.event.id
                    await again.ack()
            finally:
                await raw.close()


async def test_what_is_sent_again_after_a_jump_is_stored_once() -> None:
    """The server has forgotten the ids by its clock; what is in the log stays there once."""
    async with EmbeddedServer() as server:
        clock = _clock_of(server)
        settings = BusSettings(url=server.url)
        async with connect(settings, name="user") as user:
            await user.registry.register(AgentCard(name="user"), holder="test")
            task, opening, said = new_task_id(), new_event_id(), new_event_id()
            data = MessagePosted(parts=(TextPart("once"),))
            places: set[tuple[int, int]] = set()
            for hours in (0, 1, -1, 4):
                clock.seconds = hours * _HOUR_S
                opened = await user.tasks.open(
                    "hello", to=[], participants=["user"], task=task, event_id=opening
                )
                sent = await user.append(data, task=task, thread=MAIN_THREAD, event_id=said)
                places.add((opened.seq, sent.seq))

            assert len(places) == 1
            stored = [entry.seq async for entry in user.read(task)]
            assert stored == sorted(next(iter(places)))
