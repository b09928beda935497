"""Servers that cannot be used, or only in part: each says what is wrong and what helps."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.support.bus_env import entries_of, opened, soon, types_of
from tests.support.nats_server import NatsServer, running_nats_server
from threadbus.bus import (
    Bus,
    BusSettings,
    JetStreamMissingError,
    NoServerError,
    PermissionDeniedError,
    StorageFullError,
    StreamMismatchError,
    connect,
)
from threadbus.schemas import MAIN_THREAD, AgentCard, InvalidNameError, Lane, TaskId

NOBODY = "nats://127.0.0.1:1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server of the test's own."""
    with running_nats_server(tmp_path) as started:
        yield started


async def call(url: str, subject: str, request: Mapping[str, Any] | None = None) -> Any:
    """Call the JetStream API past the bus."""
    client = Client()
    await client.connect(url)
    body = b"" if request is None else json.dumps(request).encode()
    answer = await client.request(f"$JS.API.{subject}", body, timeout=10)
    await client.close()
    return json.loads(answer.data)


@pytest.mark.parametrize(
    "url",
    [NOBODY, "nats://no-such-host.invalid:4222", "http://127.0.0.1:1", "nats://", "", "a b"],
)
async def test_where_no_server_is(url: str) -> None:
    """A URL behind which nothing answers is an error that names it and how to start a server."""
    settings = BusSettings(url=url, connect_timeout=timedelta(seconds=1))
    with pytest.raises(NoServerError) as refusal:
        await soon(connect(settings).__aenter__())

    assert refusal.value.url == url
    assert "`bus up`" in str(refusal.value)


async def test_what_is_no_nats_server() -> None:
    """Something that answers in another language is no server, and does not hang the caller."""

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(NoServerError):
            await soon(connect(f"nats://127.0.0.1:{port}").__aenter__())


async def test_a_name_outside_the_grammar_is_refused_before_anything_is_sent() -> None:
    """Who speaks is checked before a server is looked for."""
    with pytest.raises(InvalidNameError):
        await connect(NOBODY, name="Not A Name").__aenter__()


async def test_a_server_without_jetstream(tmp_path: Path) -> None:
    """A server that keeps nothing is refused with the way to start it."""
    with running_nats_server(tmp_path, jetstream=False) as server:
        with pytest.raises(JetStreamMissingError) as refusal:
            await soon(connect(server.url).__aenter__())

        assert refusal.value.url == server.url
        assert "`-js`" in str(refusal.value)


async def test_many_processes_may_come_first(server: NatsServer) -> None:
    """Several that connect to an empty server at once all find the same streams."""
    settings = BusSettings(url=server.url)
    buses = [connect(settings, name=f"agent-{number}") for number in range(12)]
    entered = await soon(asyncio.gather(*(bus.__aenter__() for bus in buses)))
    await entered[0].registry.register(AgentCard(name="agent-1"), holder="a")
    task = await opened(entered[0], "agent-1")

    assert await types_of(entered[-1], task) == ["task.opened"]
    await soon(asyncio.gather(*(bus.__aexit__(None, None, None) for bus in buses)))
    storage = await call(server.url, "STREAM.NAMES")
    assert sorted(storage["streams"]) == [
        "BUS",
        "KV_AGENTS",
        "KV_PRESENCE",
        "MENTIONS",
        "OBJ_ARTIFACTS",
    ]


@pytest.mark.parametrize(
    ("stream", "config", "words"),
    [
        ("BUS", {"subjects": ["bus.>"], "storage": "memory"}, ["storage", "memory", "file"]),
        ("BUS", {"subjects": ["bus.>"], "retention": "workqueue"}, ["retention", "limits"]),
        ("BUS", {"subjects": ["bus.>"]}, ["deny_delete", "deny_purge"]),
        ("MENTIONS", {"subjects": ["mention.>"], "retention": "workqueue"}, ["sources"]),
        ("OTHER", {"subjects": ["bus.>"]}, ["BUS", "overlap"]),
    ],
)
async def test_a_stream_that_cannot_be_used(
    server: NatsServer, stream: str, config: dict[str, Any], words: list[str]
) -> None:
    """A stream that was made otherwise is refused with what differs, and left as it is."""
    made = await call(server.url, f"STREAM.CREATE.{stream}", {"name": stream, **config})
    with pytest.raises(StreamMismatchError) as refusal:
        await soon(connect(server.url).__aenter__())
    found = await call(server.url, f"STREAM.INFO.{stream}")

    assert [word for word in words if word not in str(refusal.value)] == []
    assert found["config"] == made["config"]


async def test_a_stream_that_only_needs_a_change_is_changed(server: NatsServer) -> None:
    """What a server can change in place is changed, and what is in the stream stays."""
    async with connect(server.url) as user:
        await user.registry.register(AgentCard(name="user"), holder="a")
        task = await opened(user, "user")
    config = (await call(server.url, "STREAM.INFO.BUS"))["config"]
    config["duplicate_window"] = 10 * 10**9
    config.pop("republish")
    await call(server.url, "STREAM.UPDATE.BUS", config)
    async with connect(server.url) as user:
        await user.send(task, MAIN_THREAD, "after", lane=Lane.QUICK)
        assert await types_of(user, task) == ["task.opened", "message.posted"]
    after = (await call(server.url, "STREAM.INFO.BUS"))["config"]

    assert after["duplicate_window"] == 120 * 10**9
    assert after["republish"]["dest"] == "stored.bus.>"


async def fill(user: Bus, task: TaskId) -> None:
    """Post until the server has no room."""
    while True:
        await user.send(task, MAIN_THREAD, "x" * 1000)


async def test_a_full_storage(server: NatsServer) -> None:
    """A server without room refuses appends with an error; reading goes on, and then writing."""
    async with connect(server.url) as user:
        await user.registry.register(AgentCard(name="user"), holder="a")
        task = await opened(user, "user")
        config = (await call(server.url, "STREAM.INFO.BUS"))["config"]
        await call(server.url, "STREAM.UPDATE.BUS", {**config, "max_bytes": 40_000})
        with pytest.raises(StorageFullError) as full:
            await soon(fill(user, task))
        stored = len(await entries_of(user, task)) - 1
        assert stored > 10
        assert "reading still works" in str(full.value)
        assert (await user.tasks.state(task)).is_open

        await call(server.url, "STREAM.UPDATE.BUS", config)
        await user.send(task, MAIN_THREAD, "there is room again")
        assert len(await entries_of(user, task)) == stored + 2


async def test_a_sender_that_the_server_does_not_allow(tmp_path: Path) -> None:
    """Credentials for one name cannot speak under another; the error says which subject."""
    users = (
        "authorization { users [ { user: all, password: x },\n"
        "  { user: web, password: x, permissions { publish {\n"
        '    allow: ["bus.*.*.*.web", "bus.*.*.*.web.>", "$JS.API.>", "$JS.ACK.>", "$KV.>"] } } }\n'
        "] }\n"
    )
    with running_nats_server(tmp_path, more=users) as server:
        address = server.url.removeprefix("nats://")
        async with (
            connect(f"nats://all:x@{address}") as user,
            connect(f"nats://web:x@{address}", name="web") as web,
        ):
            for name in ("user", "web"):
                await user.registry.register(AgentCard(name=name), holder="a")
            task = await opened(user, "web")
            forger = web.acting_as("user")
            with pytest.raises(PermissionDeniedError) as refusal:
                await soon(forger.send(task, MAIN_THREAD, "I am the user."))
            await soon(web.send(task, MAIN_THREAD, "I am web."))

            assert refusal.value.subject.endswith(".user")
            assert await types_of(user, task) == ["task.opened", "message.posted"]
