"""One bounded POST of JSON, for endpoints that are agents; any number of bytes may come back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final
from urllib.parse import urlsplit

import h11
import msgspec

_CHUNK: Final = 64 * 1024


class PostError(Exception):
    """No whole answer came; kept inside the adapter, which says it with the URL."""


class Posted(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    kind: str
    body: bytes


async def post_json(url: str, value: object, most: int) -> Posted:
    """Post *value* and return the answer; redirects are not followed.

    Args:
        url: http or https.
        value: what is posted as JSON.
        most: bytes that the answer may have.

    Raises:
        PostError: nobody is there, the answer is too large, or is no HTTP.

    Cancellation: closes the connection.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    try:
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None
        )
    except OSError as error:
        raise PostError(f"cannot be reached: {error}") from error
    try:
        return await _exchange(
            reader, writer, parts.netloc.rpartition("@")[2], _target(url), value, most
        )
    except (OSError, h11.ProtocolError) as error:
        raise PostError(f"{type(error).__name__}: {error}") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    target: str,
    value: object,
    most: int,
) -> Posted:
    http = h11.Connection(h11.CLIENT)
    body = msgspec.json.encode(value)
    headers = [
        ("host", host),
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    request = h11.Request(method="POST", target=target, headers=headers)
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(http.send(event) or b"")
    await writer.drain()
    status, kind, found = 0, "", bytearray()
    while True:
        came = http.next_event()
        if came is h11.NEED_DATA:
            http.receive_data(await reader.read(_CHUNK))
        elif isinstance(came, h11.Response):
            status = came.status_code
            kind = dict(came.headers).get(b"content-type", b"").decode("latin-1")
        elif isinstance(came, h11.Data):
            found += came.data
            if len(found) > most:
                raise PostError(f"answered more than {most:,} bytes")
        elif isinstance(came, h11.EndOfMessage):
            return Posted(status, kind, bytes(found))
        elif isinstance(came, h11.ConnectionClosed):
            raise PostError("closed the connection without an answer")
