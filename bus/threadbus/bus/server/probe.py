"""Ask an address whether a NATS server answers there, in a few lines of its text protocol.

A client library would do, but a probe is made many times in a row against a port that is not open
yet, and must neither reconnect nor log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Final

import msgspec

NOT_NATS: Final = "a program that is not NATS"
"""What is said of a listener that does not speak NATS."""

_LINE_BYTES: Final = 64 * 1024
_INFO: Final = b"INFO "
_CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"1","protocol":1,'
    b'"headers":true,"no_responders":true,"name":"threadbus-probe"}\r\n'
)


class ServerInfo(msgspec.Struct, frozen=True):
    """What a NATS server says of itself to whoever connects."""

    version: str
    server_id: str = ""
    server_name: str = ""
    max_payload: int = 0
    jetstream: bool = False
    auth_required: bool = False
    tls_required: bool = False


class _Answer(msgspec.Struct, frozen=True):
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


async def read_info(
    host: str, port: int, *, timeout: timedelta = timedelta(seconds=1)
) -> ServerInfo | None:
    """Return what the NATS server at *host* and *port* says of itself.

    Cancellation: closes the connection.

    Returns:
        None if what listens there does not speak NATS within *timeout*.

    Raises:
        OSError: Nothing listens there.
    """
    async with _connected(host, port, timeout) as (reader, _):
        return await _first_line(reader, timeout)


async def find_jetstream(
    host: str, port: int, *, timeout: timedelta = timedelta(seconds=2)
) -> ServerInfo | None:
    """Return what the NATS server says of itself once its JetStream answers a request.

    Cancellation: closes the connection.

    Returns:
        None if it does not answer, or with an error, within *timeout*.
    """
    inbox = b"_INBOX." + os.urandom(8).hex().encode()
    request = b"SUB %b 1\r\nPUB $JS.API.INFO %b 0\r\n\r\n" % (inbox, inbox)
    with contextlib.suppress(OSError):
        async with _connected(host, port, timeout) as (reader, writer):
            info = await _first_line(reader, timeout)
            if info is None:
                return None
            if info.auth_required or info.tls_required:
                # We have no key. It opens its port once its streams are there.
                return info if info.jetstream else None
            writer.write(_CONNECT + request)
            if await _good_answer(reader, timeout):
                return info
    return None


async def describe_occupant(host: str, port: int) -> str:
    """Return in words what listens at *host* and *port*.

    Cancellation: closes the connection.
    """
    try:
        info = await read_info(host, port)
    except OSError:
        return "another program"
    return f"a NATS server {info.version}" if info is not None else NOT_NATS


@contextlib.asynccontextmanager
async def _connected(
    host: str, port: int, timeout: timedelta
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    async with asyncio.timeout(timeout.total_seconds()):
        reader, writer = await asyncio.open_connection(host, port, limit=_LINE_BYTES)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _first_line(reader: asyncio.StreamReader, timeout: timedelta) -> ServerInfo | None:
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            line = await reader.readline()
        if not line.startswith(_INFO):
            return None
        return msgspec.json.decode(line[len(_INFO) :], type=ServerInfo)
    except (OSError, ValueError):
        # ValueError: a line above the limit, or not the JSON of a server.
        return None


async def _good_answer(reader: asyncio.StreamReader, timeout: timedelta) -> bool:
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while line := await reader.readline():
                if line.startswith((b"HMSG ", b"-ERR")):
                    # "No responders": the port is open, JetStream is not there yet.
                    return False
                if line.startswith(b"MSG "):
                    body = await reader.readline()
                    return msgspec.json.decode(body, type=_Answer).error is msgspec.UNSET
    except (OSError, ValueError):
        return False
    return False
