"""Three servers with routes between them, on loopback or each in a network namespace of its own."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError

from tests.support.configured_servers import ConfiguredServer


@asynccontextmanager
async def cluster(folder: Path) -> AsyncGenerator[list[ConfiguredServer]]:
    """Run three servers with routes between them."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        ports: list[int] = []
        for door in (one, two, three):
            door.bind(("127.0.0.1", 0))
            ports.append(door.getsockname()[1])
    async with running_cluster(folder, [("127.0.0.1", port) for port in ports]) as servers:
        yield servers


@asynccontextmanager
async def running_cluster(
    folder: Path, routes: Sequence[tuple[str, int]], prefixes: Sequence[Sequence[str]] = ()
) -> AsyncGenerator[list[ConfiguredServer]]:
    """Run a server for each host and port of *routes*.

    Args:
        folder: for data, configurations and logs.
        routes: where each listens for the others; clients come to the same host.
        prefixes: for each server, words before its command.
    """
    servers = [
        ConfiguredServer(
            folder,
            f"n{number}",
            {
                "host": host,
                "jetstream": {"store_dir": str(folder / f"data{number}")},
                "cluster": {
                    "name": "team",
                    "host": host,
                    "port": port,
                    "routes": [
                        f"nats://{other}:{at}"
                        for other, at in routes
                        if (other, at) != (host, port)
                    ],
                },
            },
            prefixes[number] if prefixes else (),
        )
        for number, (host, port) in enumerate(routes)
    ]
    try:
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.start())
        yield servers
    finally:
        for server in servers:
            await server.kill()


async def leader_of(servers: Sequence[ConfiguredServer], what: str) -> str:
    """Return the server that leads a stream or a consumer; empty where there is none now.

    Args:
        servers: of the cluster.
        what: of the API: ``STREAM.INFO.BUS``, ``CONSUMER.INFO.MENTIONS.agent-web``.
    """
    client = Client()
    await client.connect([server.url for server in servers], max_reconnect_attempts=-1)
    try:
        reply = await client.request(f"$JS.API.{what}", b"", timeout=2)
        return str(json.loads(reply.data).get("cluster", {}).get("leader", ""))
    except NatsError:
        return ""
    finally:
        await client.close()
