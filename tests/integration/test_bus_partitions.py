"""A bus whose log and inboxes are several streams: what is decided when, and what it survives."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.support.bus_env import (
    QUICK,
    comes_to,
    events_of,
    opened,
    receive,
    soon,
    take,
    write_raw,
)
from tests.support.configured_servers import ConfiguredServer
from tests.support.eventually import eventually
from tests.support.spread_bus import INBOXES, NAMES, PARTITIONS, in_each_partition, several, spread
from threadbus.bus import (
    Bus,
    BusSettings,
    StreamKind,
    StreamMismatchError,
    connect,
)
from threadbus.bus._nats.backend import open_backend
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    MessagePosted,
    Rejected,
    TaskId,
    TextPart,
    encode_event,
    make_event,
    partition_of,
    partition_of_seq,
    partition_start,
)


async def test_nothing_is_lost_and_nothing_double_over_kills_of_the_server() -> None:
    """1,500 guarded messages of many tasks, each to two agents, over three kills with SIGKILL."""
    async with EmbeddedServer() as server, several(server) as (user, web, doc):
        tasks = [task for _ in range(4) for task in await in_each_partition(user, "web")]
        taken: dict[str, set[tuple[TaskId, int]]] = {"web": set(), "doc": set()}

        async def wake(bus: Bus) -> None:
            async with bus.inbox() as inbox:
                async for delivery in inbox:
                    taken[bus.name].add((delivery.event.task, delivery.seq))
                    await delivery.ack()

        async def post(number: int) -> tuple[TaskId, int]:
            task = tasks[number % len(tasks)]
            sent = await user.send(task, MAIN_THREAD, str(number), mentions=["web", "doc"])
            return task, sent.seq

        waking = [asyncio.create_task(wake(bus)) for bus in (web, doc)]
        posting = [asyncio.create_task(post(number)) for number in range(1500)]

        def done() -> int:
            return sum(one.done() for one in posting)

        for count in (1, 500, 1000):
            while done() < count:
                await asyncio.wait(
                    [one for one in posting if not one.done()], return_when=asyncio.FIRST_COMPLETED
                )
            await server.kill()
            await server.start()
        sent = await soon(asyncio.gather(*posting))
        there: Counter[str] = Counter()
        for task in tasks:
            there.update(event.id for event in await events_of(user, task))
        opening = {(task, 1) for task in tasks}
        await eventually(
            lambda: all(set(sent) <= one for one in taken.values()), "both were told all", 60
        )
        for one in waking:
            one.cancel()

        assert len(set(sent)) == 1500
        assert len(there) == 1500 + len(opening)
        assert set(there.values()) == {1}
        assert {partition_of_seq(seq) for _, seq in sent} == set(range(PARTITIONS))
        assert all(partition_of_seq(s) == partition_of(t, PARTITIONS) for t, s in sent)


async def test_the_first_who_makes_the_streams_decides() -> None:
    """Of two that want it otherwise one is told; who does not say takes the bus as it is."""
    async with EmbeddedServer() as server:

        async def make(partitions: int) -> int:
            async with connect(spread(server.url, partitions, inboxes=0), name="user") as bus:
                return bus.partitions

        wanted = [1, 4, 2, 4, 1, 2]
        results = await soon(asyncio.gather(*map(make, wanted), return_exceptions=True))
        made = {result for result in results if isinstance(result, int)}
        told = [result for result in results if isinstance(result, StreamMismatchError)]

        assert len(made) == 1
        # One that wanted the same may have looked while the streams were being made.
        assert len(told) >= 4
        assert len(told) == sum(not isinstance(result, int) for result in results)
        assert "--partitions" in str(told[0])
        assert await make(0) == await make(max(made)) == made.pop()


async def test_a_bus_of_one_stream_keeps_it_and_its_data() -> None:
    """Asked for partitions it says that it has one; without being asked it goes on as ever."""
    async with EmbeddedServer() as server:
        async with connect(server.url, name="user") as user:
            await user.registry.register(AgentCard(name="web"), holder="tests")
            task = await opened(user, "web")
        with pytest.raises(StreamMismatchError, match=r"stream BUS .*has 1 partitions and not 3"):
            async with connect(spread(server.url), name="user"):
                pass
        with pytest.raises(StreamMismatchError, match=r"stream MENTIONS .*has 1 inboxes and not 2"):
            async with connect(spread(server.url, partitions=0), name="user"):
                pass
        async with connect(server.url, name="user", ensure=False) as user:
            assert len(await events_of(user, task)) == 1
            assert {stream.name for stream in (await user.storage()).streams} >= {"BUS", "MENTIONS"}


async def test_an_event_in_a_wrong_partition_is_nobodys() -> None:
    """Not read with its task, reported to whoever reads the partition, and nobody is woken."""
    async with EmbeddedServer() as server, several(server) as (user, web, _):
        task = (await in_each_partition(user, "web"))[0]
        event = make_event(
            MessagePosted(parts=(TextPart("Psst."),)),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("doc"),
            mentions=(AgentName("web"),),
        )
        async with open_backend(BusSettings(url=server.url), "raw") as raw:
            sent = event.subject.replace("bus.", "part.1.", 1)
            seq = await write_raw(raw, sent, encode_event(event))
        await user.send(task, MAIN_THREAD, "Hello.", mentions=["web"])
        async with web.inbox() as inbox:
            told = [
                (delivery.event.task, delivery.event.type) for delivery in await receive(inbox, 4)
            ]
        async with user.consuming("audit", partition=1) as consumer:
            found = await take(consumer, 2)

        assert partition_of_seq(seq) == 1
        assert Counter(told)[task, "message.posted"] == 1
        assert [one.id for one in await events_of(user, task)].count(event.id) == 0
        assert isinstance(found[1], Rejected)
        assert "misplaced" in found[1].reason


async def test_an_inbox_is_where_the_registry_says() -> None:
    """Agents are spread over the streams of inboxes, and what waits is counted over all."""
    async with EmbeddedServer() as server, several(server) as (user, web, doc):
        records = {record.card.name: record for record in await user.registry.list()}
        wanted = {name: f"MENTIONS-{partition_of(name, INBOXES)}" for name in NAMES}
        assert {name: record.inbox_stream for name, record in records.items()} == wanted

        tasks = await in_each_partition(user, "web", "doc")
        everybody = {"web": len(tasks), "doc": len(tasks)}
        await comes_to(user.pending_mentions, everybody)
        oldest = await user.oldest_mention("web")
        assert oldest is not None
        for bus in (web, doc):
            async with bus.inbox(stream=wanted[bus.name]) as inbox:
                there = [delivery.event.task for delivery in await receive(inbox, len(tasks))]
            assert set(there) == set(tasks)
        kinds = Counter(stream.kind for stream in (await user.storage()).streams)
        assert kinds[StreamKind.LOG] == PARTITIONS
        assert (kinds[StreamKind.HUB], kinds[StreamKind.INBOXES]) == (1, INBOXES)


async def test_a_mention_is_found_in_the_log_once_the_hub_has_dropped_it() -> None:
    """An agent that comes after the hub's copy is gone knows where in the log its mention is."""
    async with EmbeddedServer() as server, several(server) as (user, web, _):
        task = (await in_each_partition(user, "web"))[2]
        sent = await user.send(task, MAIN_THREAD, "Hello.", mentions=["doc", "web"])
        await comes_to(user.pending_mentions, {"web": PARTITIONS + 1, "doc": 1})
        client = Client()
        await client.connect(server.url)
        await client.request("$JS.API.STREAM.PURGE.MENTIONS", b"", timeout=10)
        await client.close()
        async with web.inbox() as inbox:
            deliveries = await receive(inbox, PARTITIONS + 1)

        found = {delivery.seq: delivery.event for delivery in deliveries}
        assert found[sent.seq] == sent.event


async def test_a_push_agent_gets_its_mentions_from_its_stream() -> None:
    """Who is registered with push is told on inbox.<name>, whichever stream its inbox is in."""
    async with EmbeddedServer() as server, several(server) as (user, _, _):
        record = await user.registry.register(AgentCard(name="bell"), holder="tests", push=True)
        assert record.inbox_stream == f"MENTIONS-{partition_of('bell', INBOXES)}"
        client = Client()
        await client.connect(server.url)
        sub = await client.subscribe(  # pyright: ignore[reportUnknownMemberType]
            "inbox.bell", queue="bell"
        )
        await client.flush()
        task = await opened(user, "bell")
        message = await soon(sub.next_msg(30))
        await client.close()

        assert message.subject == "inbox.bell" or message.subject.startswith("mention.bell.")
        assert task.encode() in message.data


async def test_a_server_that_maps_puts_plain_subjects_where_clients_do(tmp_path: Path) -> None:
    """A publisher that knows nothing of partitions sends to bus.<task>.… and is read."""
    mapping = {"bus.*.>": f"part.{{{{partition({PARTITIONS},1)}}}}.{{{{wildcard(1)}}}}.>"}
    account = {
        "jetstream": "enabled",
        "users": [{"user": "u", "password": "p"}],
        "mappings": mapping,
    }
    config = {
        "accounts": {"MAIN": account},
        "jetstream": {"store_dir": str(tmp_path / "data")},
    }
    server = ConfiguredServer(tmp_path, "maps", config)
    await server.start()
    try:
        url = server.url.replace("nats://", "nats://u:p@")
        async with connect(spread(url, inboxes=1), name="user") as user:
            for name in NAMES:
                await user.registry.register(AgentCard(name=name), holder="tests")
            tasks = await in_each_partition(user, "web")
            client = Client()
            await client.connect(url)
            for task in tasks:
                event = make_event(
                    MessagePosted(parts=(TextPart("Hello."),)),
                    task=task,
                    thread=MAIN_THREAD,
                    sender=AgentName("doc"),
                )
                headers = {
                    "Nats-Msg-Id": event.id,
                    "Nats-Expected-Last-Subject-Sequence": str(
                        partition_start(partition_of(task, PARTITIONS)) + 1
                    ),
                    "Nats-Expected-Last-Subject-Sequence-Subject": f"bus.{task}.main.ctl.>",
                }
                await client.request(
                    event.subject, encode_event(event), timeout=20, headers=headers
                )
                assert event in await events_of(user, task)
            await client.close()
    finally:
        await server.kill()


async def test_a_spread_log_whose_inboxes_are_one_stream_delivers_in_time() -> None:
    """Without a hub the mentions of all partitions come, each with its place in the log."""
    async with EmbeddedServer() as server:
        settings = replace(QUICK, url=server.url, partitions=PARTITIONS, inboxes=1)
        async with several(server, settings) as (user, web, _):
            tasks = await in_each_partition(user, "web")
            sent = [
                (await user.send(task, MAIN_THREAD, str(n), mentions=["web"])).seq
                for n in range(20)
                for task in tasks
            ]
            async with web.inbox(room=32) as inbox:
                there = [d.seq for d in await receive(inbox, len(sent) + PARTITIONS)]
            for number in range(PARTITIONS):
                mine = [seq for seq in there if partition_of_seq(seq) == number]
                assert mine == sorted(mine)
            assert set(sent) <= set(there)
