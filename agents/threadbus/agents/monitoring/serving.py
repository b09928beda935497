"""A small HTTP server for scrapes: GET only, one request a connection, everything bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, TypeAlias

from threadbus.agents.monitoring.errors import CannotListenError

MAX_HEAD_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 64
TIMEOUT_S: Final = 10.0
"""Time for a request to arrive, and for its answer to be taken."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_PLAIN: Final = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """What is looked at of a request."""

    path: str
    accept: str


class Response(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    media_type: str = _PLAIN


Answer: TypeAlias = Callable[[Request], Callable[[], Response]]
"""Takes a request, in the loop, and returns what makes the answer, which is called in a thread."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT`` (every address).

    Raises:
        ValueError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(text)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(text)
    return host, int(port)


@asynccontextmanager
async def serving(host: str, port: int, answer: Answer) -> AsyncGenerator[str]:
    """Serve for as long as the context lasts; gives the URL.

    Args:
        host: where to listen; empty is every address.
        port: where to listen; 0 takes a free one.
        answer: makes the answers.

    Raises:
        CannotListenError: the address is taken, or none of this machine.
    """
    desk = _Desk(answer)
    try:
        server = await asyncio.start_server(
            desk.serve, host or None, port, limit=MAX_HEAD_BYTES, backlog=MAX_CONNECTIONS
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListenError(f"{host}:{port}", reason) from error
    async with server:
        name, taken = server.sockets[0].getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        try:
            yield f"http://{shown}:{taken}"
        finally:
            server.close()
            desk.close()


class _Desk:
    """Takes connections."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._writers: set[asyncio.StreamWriter] = set()

    def close(self) -> None:
        """Cut what is open."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        if len(self._writers) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                method, response = await self._respond(reader)
                reason = _REASONS[response.status]
                head = (
                    f"HTTP/1.1 {response.status} {reason}\r\n"
                    f"Content-Type: {response.media_type}\r\n"
                    f"Content-Length: {len(response.body)}\r\n"
                    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                    "Connection: close\r\n\r\n"
                )
                writer.write(head.encode() + (b"" if method == "HEAD" else response.body))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            with suppress(OSError):
                writer.close()

    async def _respond(self, reader: asyncio.StreamReader) -> tuple[str, Response]:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            return "GET", Response(431, f"at most {MAX_HEAD_BYTES} bytes of headers\n".encode())
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", Response(400, b"not a request of HTTP/1.1\n")
        method, target, _ = words
        if method not in {"GET", "HEAD"}:
            return method, Response(405, b"only GET and HEAD\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        request = Request(target.partition("?")[0], headers.get("accept", ""))
        return method, await asyncio.to_thread(self._answer(request))
