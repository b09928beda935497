"""Servers and streams that are not as threadbus needs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.support.bus_env import soon
from tests.support.configured_servers import configured_server
from tests.support.embedded_servers import program
from threadbus.bus import (
    BusSettings,
    ConnectError,
    JetStreamMissingError,
    NoServerError,
    ServerTooOldError,
    StreamMismatchError,
    connect,
)
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.schemas import MAIN_THREAD, AgentCard

_RACER = """
import asyncio, sys
from threadbus.bus import connect
from threadbus.schemas import AgentCard

async def main():
    async with connect(sys.argv[1], name="racer") as bus:
        await bus.registry.list()
        print("connected", flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def plain(url: str) -> AsyncGenerator[Client]:
    """Connect plain nats-py."""
    client = Client()
    await client.connect(url, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def call(client: Client, subject: str, request: object = None) -> dict[str, Any]:
    """Call the JetStream API; an error fails the test."""
    body = b"" if request is None else json.dumps(request).encode()
    reply = await client.request(f"$JS.API.{subject}", body, timeout=10)
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def change(url: str, stream: str, **fields: object) -> None:
    """Change the configuration of a stream by hand; None takes a field away."""
    async with plain(url) as client:
        config = (await call(client, f"STREAM.INFO.{stream}"))["config"] | fields
        wanted = {name: value for name, value in config.items() if value is not None}
        await call(client, f"STREAM.UPDATE.{stream}", wanted)


async def create(url: str, stream: str, **fields: object) -> None:
    """Make a stream by hand."""
    async with plain(url) as client:
        await call(client, f"STREAM.CREATE.{stream}", {"name": stream, **fields})


async def config_of(url: str, stream: str) -> dict[str, Any]:
    """Return the configuration of a stream."""
    async with plain(url) as client:
        config: dict[str, Any] = (await call(client, f"STREAM.INFO.{stream}"))["config"]
        return config


async def works(url: str) -> None:
    """Do a round trip: open, mention, take, answer."""
    async with connect(url, name="user") as user, connect(url, name="web") as web:
        for name in ("user", "web"):
            await user.registry.register(AgentCard(name=name), holder="tests")
        task = (await user.tasks.open("What is it?", to=["web"])).event.task
        async with web.inbox() as inbox:
            delivery = await soon(inbox.next())
            await web.send(task, MAIN_THREAD, "Something.", cause=delivery.event.id)
            await delivery.ack()


@pytest.mark.parametrize(
    ("stream", "field", "value"),
    [
        ("BUS", "republish", None),
        ("BUS", "duplicate_window", 1_000_000_000),
        ("BUS", "discard", "old"),
        ("BUS", "no_ack", True),
        ("BUS", "allow_direct", False),
        ("KV_PRESENCE", "subject_delete_marker_ttl", None),
        ("KV_AGENTS", "allow_rollup_hdrs", True),
        ("OBJ_ARTIFACTS", "allow_direct", False),
    ],
)
async def test_what_was_changed_by_hand_is_put_right(
    stream: str, field: str, value: object
) -> None:
    """A setting that the server lets us change back is changed back, and everything works."""
    async with EmbeddedServer() as server:
        await works(server.url)
        before = await config_of(server.url, stream)
        await change(server.url, stream, **{field: value})
        assert (await config_of(server.url, stream)).get(field) != before.get(field)
        await works(server.url)

        assert (await config_of(server.url, stream)).get(field) == before.get(field)


@pytest.mark.parametrize(
    ("stream", "fields", "named"),
    [
        ("BUS", {"subjects": ["orders.>"]}, "orders.>"),
        ("BUS", {"subjects": ["bus.>"], "storage": "memory"}, "memory"),
        ("BUS", {"subjects": ["bus.>"], "retention": "interest"}, "interest"),
        ("MENTIONS", {"subjects": ["mentions"]}, "retention"),
        ("KV_AGENTS", {"subjects": ["agents"]}, "agents"),
        ("OTHER", {"subjects": ["bus.>"]}, "overlap"),
    ],
)
async def test_a_stream_of_somebody_else_is_left_alone(
    stream: str, fields: dict[str, object], named: str
) -> None:
    """What cannot be changed, or is not ours, is refused with what differs and stays as it is."""
    async with EmbeddedServer() as server:
        await create(server.url, stream, **fields)
        before = await config_of(server.url, stream)
        with pytest.raises(StreamMismatchError, match=named) as refused:
            async with connect(server.url):
                pass

        assert refused.value.stream == (stream if stream != "OTHER" else "BUS")
        assert await config_of(server.url, stream) == before


async def test_an_inbox_stream_that_drops_copies_is_put_right() -> None:
    """The copies of one event share an id: a window on the work queue would drop all but one."""
    async with EmbeddedServer() as server:
        await works(server.url)
        await change(server.url, "MENTIONS", duplicate_window=60_000_000_000)
        await works(server.url)
        assert (await config_of(server.url, "MENTIONS")).get("duplicate_window", 0) == 0


async def test_twenty_processes_race_to_make_the_streams() -> None:
    """Ten processes and ten connections that find an empty server all get a bus that works."""
    async with EmbeddedServer() as server, asyncio.timeout(60):

        async def in_process() -> None:
            async with connect(server.url, name="racer") as bus:
                await bus.registry.list()

        async def in_child() -> None:
            async with program(_RACER, server.url) as child:
                out, errors = await child.communicate()
                assert out == b"connected\n", errors.decode()

        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(in_process())
                group.create_task(in_child())
        await works(server.url)


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    """The error says that JetStream is what is missing."""
    async with configured_server(tmp_path, {}) as url:
        with pytest.raises(JetStreamMissingError, match="-js"):
            async with connect(url):
                pass


async def test_a_server_whose_messages_are_too_small_is_refused() -> None:
    """Where the streams cannot even be described the error names the limit."""
    settings = ServerSettings(max_payload_bytes=2048)
    async with EmbeddedServer(settings=settings) as server:
        with pytest.raises(NoServerError, match="2,048"):
            async with connect(server.url):
                pass


async def test_an_old_server_is_refused_with_its_version() -> None:
    """A server that says it is 2.9.0 is refused by its version, whatever else it can do."""
    info = {"server_id": "OLD", "version": "2.9.0", "max_payload": 1048576, "headers": True}

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    listener = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with listener:
        url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        with pytest.raises(ServerTooOldError, match=r"2\.9\.0.*2\.12") as refused:
            async with connect(url):
                pass
    assert refused.value.url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4222",
        "ws://127.0.0.1:4222",
        "garbage",
        "nats://no-such-host.invalid:4222",
        "nats://127.0.0.1:1",
        "tls://127.0.0.1:1",
        "nats://127.0.0.1:1,nats://127.0.0.1:2",
        "nats://127.0.0.1:99999",
        "nats://127.0.0.1:port",
        "nats://",
        "nats://a b:4222",
        ",",
    ],
)
async def test_a_wrong_url_is_named(url: str) -> None:
    """Whatever is wrong with a URL, the error comes in time, names it, and leaves nothing."""
    before = asyncio.all_tasks()
    settings = BusSettings(url=url, connect_timeout=timedelta(seconds=1))
    with pytest.raises(NoServerError) as refused:
        async with asyncio.timeout(20), connect(settings):
            pass

    assert refused.value.url == url
    assert url in str(refused.value)
    assert asyncio.all_tasks() == before


async def test_a_port_that_never_speaks_is_given_up() -> None:
    """A server that waits for TLS, or for nothing at all, does not hold a caller for ever."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    listener = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with listener:
        url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        with pytest.raises(NoServerError, match=url):
            async with connect(BusSettings(url=url, connect_timeout=timedelta(seconds=1))):
                pass
        for writer in held:
            writer.close()
            await writer.wait_closed()


async def test_passwords_are_never_shown() -> None:
    """What may be a secret in a URL is in no error."""
    url = "nats://user:secret@127.0.0.1:1"
    settings = replace(BusSettings(url=url), connect_timeout=timedelta(seconds=1))
    with pytest.raises(ConnectError) as refused:
        async with connect(settings):
            pass

    assert "secret" not in f"{refused.value!r} {refused.value}"
    assert "127.0.0.1:1" in str(refused.value)
