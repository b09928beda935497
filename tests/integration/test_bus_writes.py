"""When a message is written: at once, with what is sent next, or behind it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.support.eventually import eventually
from tests.support.nats_server import NatsServer
from tests.support.writes import note_writes
from threadbus.bus import connect
from threadbus.bus._nats.client import DirectClient
from threadbus.bus.ports import Haste


@asynccontextmanager
async def connected(server: NatsServer) -> AsyncGenerator[DirectClient]:
    """Connect a client as the bus does."""
    client = DirectClient()
    await client.connect(server.url)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def hearing(server: NatsServer) -> AsyncGenerator[list[str]]:
    """Collect what others say on ``said.>``, in the order in which the server has it."""
    heard: list[str] = []

    def on_frame(_subject: bytes, _reply: bytes, body: bytes, _raw: bytes) -> None:
        heard.append(body.decode())

    async with connected(server) as client, client.listen("said.>", on_frame, settled=True):
        yield heard


async def test_what_nobody_waits_for_goes_with_what_is_sent_next(nats_server: NatsServer) -> None:
    """In the order in which it was said, but for what may go last."""
    async with hearing(nats_server) as heard, connected(nats_server) as client:
        client.post("said.a", b"the end of a turn", haste=Haste.LAST)
        client.post("said.a", b"an observation", haste=Haste.SOON)
        client.post("said.a", b"its acknowledgement", haste=Haste.LAST)
        client.post("said.a", b"an answer")
        await eventually(lambda: len(heard) == 4, "everything has come")

    assert heard == ["an observation", "an answer", "the end of a turn", "its acknowledgement"]


async def test_what_nobody_waits_for_goes_by_itself_after_a_moment(nats_server: NatsServer) -> None:
    """Nothing has to follow it."""
    async with hearing(nats_server) as heard, connected(nats_server) as client:
        for haste in (Haste.SOON, Haste.LAST):
            heard.clear()
            client.post("said.a", haste.value.encode(), haste=haste)
            await eventually(lambda: bool(heard), "it has come")
            assert heard == [haste.value]


async def test_leaving_sends_what_nobody_waits_for(nats_server: NatsServer) -> None:
    """A connection that is closed at once loses none of it."""
    async with hearing(nats_server) as heard:
        async with connected(nats_server) as client:
            client.post("said.a", b"soon", haste=Haste.SOON)
            client.post("said.a", b"last", haste=Haste.LAST)
        await eventually(lambda: len(heard) == 2, "both have come")

    assert heard == ["soon", "last"]


async def test_a_thousand_in_one_turn_of_the_loop_stay_in_order(nats_server: NatsServer) -> None:
    """They are written in pieces, while the next are made."""
    async with hearing(nats_server) as heard, connected(nats_server) as client:
        for number in range(1000):
            client.post("said.a", str(number).encode())
        await eventually(lambda: len(heard) == 1000, "all have come")

    assert heard == [str(number) for number in range(1000)]


async def test_an_answer_and_the_end_of_its_task_are_one_write(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is woken once for both."""
    async with connect(nats_server.url, name="user") as bus:
        task = (await bus.tasks.open("Which?", to=[])).event.task
        written = note_writes(monkeypatch)
        await bus.tasks.submit_answer(task, "The report.")

    with_answer = [lines for lines in written if b"answer.submitted" in lines]
    assert [b"task.closed" in lines for lines in with_answer] == [True]
