"""What the tests of the embedded server need: waiting, clients, and programs that own a server."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from nats.aio.client import Client
from nats.js.api import (
    AccountInfo,
    ConsumerConfig,
    ConsumerInfo,
    PubAck,
    RawStreamMsg,
    StreamConfig,
    StreamInfo,
)
from nats.js.client import JetStreamContext

from tests.support.eventually import PATIENCE_S as PATIENCE_S
from tests.support.eventually import eventually as eventually

SLOW_SERVER = """\
#!/bin/sh
[ "$1" = --version ] && { echo "nats-server: v2.15.1"; exit 0; }
echo "$$" > started
exec sleep 600
"""
"""A server that never becomes ready; writes its pid into the data folder."""

HOLD_SERVER = """\
import asyncio, json, sys
from pathlib import Path
from threadbus.bus.server import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1])) as server:
        print(json.dumps({"pid": server.pid, "port": server.port}), flush=True)
        await server.wait()

asyncio.run(main())
"""
"""A program that holds an embedded server with its data in the folder of its argument."""


async def loop_turns(count: int) -> None:
    """Let the event loop run *count* times: a moment that no clock decides."""
    for _ in range(count):
        await asyncio.sleep(0)


def is_gone(pid: int) -> bool:
    """Return whether no process *pid* runs any more; a zombie that nobody reaps does not run."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return listed == "" or listed.startswith("Z")


def is_listening(port: int) -> bool:
    """Return whether something accepts connections on *port* of the loopback."""
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == 0


def make_slow_server(folder: Path) -> Path:
    """Write an executable that says it is nats-server and never becomes ready."""
    path = folder / "slow-nats-server"
    path.write_text(SLOW_SERVER, encoding="utf-8")
    path.chmod(0o700)
    return path


class JetStream(Protocol):
    """What the tests call of nats-py's JetStream, with its types told in full."""

    async def account_info(self) -> AccountInfo: ...

    async def add_stream(self, config: StreamConfig | None = None) -> StreamInfo: ...

    async def add_consumer(
        self, stream: str, config: ConsumerConfig | None = None
    ) -> ConsumerInfo: ...

    async def publish(self, subject: str, payload: bytes = b"") -> PubAck: ...

    async def get_msg(self, stream_name: str, seq: int | None = None) -> RawStreamMsg: ...

    async def stream_info(self, name: str) -> StreamInfo: ...


@asynccontextmanager
async def jetstream_of(url: str) -> AsyncGenerator[JetStream, None]:
    """Connect plain nats-py once, without reconnecting."""
    client = Client()
    await client.connect(url, allow_reconnect=False, error_cb=_quiet)
    try:
        yield JetStreamContext(client)
    finally:
        await client.close()


async def _quiet(error: Exception) -> None:
    """Errors are seen by the calls that fail."""


@asynccontextmanager
async def program(
    code: str, *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Process, None]:
    """Run Python *code* in a process of its own, which is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        code,
        *map(str, arguments),
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def said(process: Process) -> dict[str, int]:
    """Return the next line of *process*, which is a JSON object of numbers."""
    if process.stdout is None:
        raise AssertionError("the program has no pipe")
    async with asyncio.timeout(PATIENCE_S):
        line = await process.stdout.readline()
    if not line:
        _, errors = await process.communicate()
        raise AssertionError(f"the program ended: {errors.decode()}")
    answer: dict[str, int] = json.loads(line)
    return answer
