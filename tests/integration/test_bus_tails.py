"""Subscriptions to what the log has stored: shared, kept for a while, and given up in the end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.support.bus_env import soon
from tests.support.eventually import eventually
from tests.support.nats_server import NatsServer
from tests.support.writes import note_writes
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.tails import NatsTails
from threadbus.bus.ports import StoredMessage


@asynccontextmanager
async def connected(server: NatsServer) -> AsyncGenerator[DirectClient]:
    """Connect a client as the bus does."""
    client = DirectClient()
    await client.connect(server.url)
    client.start_answers()
    try:
        yield client
    finally:
        await client.close()


async def tell(client: DirectClient, subject: str, seq: int) -> None:
    """Say what a server says when it has stored a message."""
    head = (
        f"NATS/1.0\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        "Nats-Time-Stamp: 2026-11-30T09:00:00.5Z\r\n\r\n"
    )
    client.post(f"stored.{subject}", b"{}", head=head.encode())
    await client.flush()


def nothing() -> None:
    """Lose nothing."""


async def test_followers_of_one_subject_share_a_subscription(nats_server: NatsServer) -> None:
    """Each follower gets each message while it follows, and the server sends it once."""
    first: list[StoredMessage] = []
    second: list[StoredMessage] = []
    async with connected(nats_server) as client:
        tails = NatsTails(client)
        before = client.stats["in_msgs"]
        async with tails.tail("bus.t.>", first.append, nothing):
            async with tails.tail("bus.t.>", second.append, nothing):
                await tell(client, "bus.t.a", 1)
            await tell(client, "bus.t.b", 2)

        assert [message.seq for message in first] == [1, 2]
        assert [message.seq for message in second] == [1]
        assert client.stats["in_msgs"] - before == 2
        assert first[0] == StoredMessage(1, "bus.t.a", b"{}", 1_796_029_200_500_000_000)


async def test_who_follows_again_does_not_subscribe_again(nats_server: NatsServer) -> None:
    """The subscription stays; what comes while nobody follows reaches nobody."""
    got: list[StoredMessage] = []
    async with connected(nats_server) as client:
        tails = NatsTails(client)
        async with tails.tail("bus.t.>", got.append, nothing):
            sent = client.stats["out_msgs"], client.stats["out_bytes"]
            known = len(client._subs)  # pyright: ignore[reportPrivateUsage]
        await tell(client, "bus.t.between", 1)
        async with tails.tail("bus.t.>", got.append, nothing):
            await tell(client, "bus.t.after", 2)

            assert [message.seq for message in got] == [2]
            assert len(client._subs) == known  # pyright: ignore[reportPrivateUsage]
        assert client.stats["out_msgs"] - sent[0] == 2


async def test_few_subscriptions_stay_and_none_for_ever(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many that nobody follows any more the oldest go at once, the others after a while."""
    monkeypatch.setattr("threadbus.bus._nats.tails._MAX_IDLE", 3)
    monkeypatch.setattr("threadbus.bus._nats.tails._STAYS_S", 0.2)
    async with connected(nats_server) as client:
        tails = NatsTails(client)
        known = len(client._subs)  # pyright: ignore[reportPrivateUsage]
        for number in range(10):
            async with tails.tail(f"bus.t{number}.>", lambda _message: None, nothing):
                pass

        assert len(client._subs) == known + 3  # pyright: ignore[reportPrivateUsage]
        await eventually(
            lambda: len(client._subs) == known,  # pyright: ignore[reportPrivateUsage]
            "the subscriptions are given up",
        )


async def test_every_follower_hears_that_something_may_be_lost(nats_server: NatsServer) -> None:
    """After a reconnect whoever follows reads again; who has left does not."""
    lost: list[str] = []
    async with connected(nats_server) as client:
        tails = NatsTails(client)
        async with (
            tails.tail("bus.t.>", lambda _message: None, lambda: lost.append("one")),
            tails.tail("bus.t.>", lambda _message: None, lambda: lost.append("two")),
        ):
            tails.lose()
        tails.lose()

    assert sorted(lost) == ["one", "two"]


async def test_a_subscription_comes_before_what_is_sent_after_it(nats_server: NatsServer) -> None:
    """Subscribing waits for nothing, and still misses nothing of what comes of a later message."""
    got: list[StoredMessage] = []
    async with connected(nats_server) as client:
        for number in range(50):
            tails = NatsTails(client)
            async with tails.tail(f"bus.t{number}.>", got.append, nothing):
                await soon(tell(client, f"bus.t{number}.x", number))

    assert [message.seq for message in got] == list(range(50))


async def test_who_gives_up_while_it_subscribes_leaves_the_connection(
    nats_server: NatsServer,
) -> None:
    """The answer to a flush that nobody waits for any more ends nothing."""
    got: list[bytes] = []

    def take(_subject: bytes, _reply: bytes, body: bytes, _raw: bytes) -> None:
        got.append(body)

    async with connected(nats_server) as client:
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0), client.listen("x", take, settled=True):
                    await asyncio.Event().wait()
        await soon(client.flush())
        async with client.listen("x", take, settled=True):
            client.post("x", b"still here")
            await eventually(lambda: got == [b"still here"], "the message")

        assert client.stats["reconnects"] == 0
        assert not client.is_reconnecting


async def test_the_end_of_a_subscription_goes_with_what_is_said_next(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes the server by itself only where nothing is said for a while."""
    monkeypatch.setattr("threadbus.bus._nats.tails._MAX_IDLE", 0)
    monkeypatch.setattr("threadbus.bus._nats.client._LATEST_S", 0.0)
    async with connected(nats_server) as client:
        tails = NatsTails(client)
        async with tails.tail("bus.t.>", lambda _message: None, nothing):
            await client.flush()
            written = note_writes(monkeypatch)
        # A timer that is due after that of a message that nobody waits for.
        due = asyncio.Event()
        asyncio.get_running_loop().call_later(0.001, due.set)
        await soon(due.wait())
        assert written == []
        client.post("said.next", b"{}")
        assert b"UNSUB" in written[-1]

        async with tails.tail("bus.t.>", lambda _message: None, nothing):
            pass
        await eventually(
            lambda: any(lines.startswith(b"UNSUB") for lines in written),
            "the subscription is given up",
        )
