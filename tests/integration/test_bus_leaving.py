"""Leaving a bus at the moment at which its connection breaks or comes back."""

import asyncio

import pytest

from tests.support.bus_env import receive
from threadbus.bus import connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import MAIN_THREAD, AgentCard


@pytest.mark.parametrize("turns", [0, 1, 5, 20, 100])
async def test_leaving_while_the_connection_comes_back_is_no_error(turns: int) -> None:
    """Whatever the socket is going through, a bus is left in order and what it said stays said."""
    async with EmbeddedServer() as server:
        async with connect(server.url, name="web") as web:
            await web.registry.register(AgentCard(name="web"), holder="a")
            task = (await web.tasks.open("What?", to=["web"])).event.task
            for number in range(10):
                await web.send(task, MAIN_THREAD, str(number), mentions=["web"])
            async with web.inbox() as inbox:
                held = await receive(inbox, 3, ack=False)
                await server.kill()
                await server.start()
                for delivery in held:
                    await delivery.ack()
            for _ in range(turns):
                await asyncio.sleep(0)
        seqs = {delivery.seq for delivery in held}
        async with connect(server.url, name="web") as web, web.inbox() as inbox:
            # An acknowledgement that was lost with the connection lets a mention come again.
            while seqs != set(range(1, 12)):
                (delivery,) = await receive(inbox, 1)
                seqs.add(delivery.seq)
