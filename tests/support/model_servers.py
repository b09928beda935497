"""Playbook servers for tests, and settings that ask them without waiting long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from threadbus.agents.model import PLAYBOOK, ModelSettings, Secret
from threadbus.agents.model.playbook import PlaybookServer, parse_playbook

KEY = "sk-test-0123456789"


def settings_for(
    base_url: str,
    *,
    timeout: timedelta = timedelta(seconds=20),
    deadline: timedelta = timedelta(seconds=30),
    max_retries: int = 3,
    max_wait: timedelta = timedelta(seconds=60),
    max_output_chars: int = 1_000_000,
    max_output_tokens: int | None = None,
    max_tool_calls: int = 64,
) -> ModelSettings:
    """Return settings that ask *base_url*, with waits too short to notice."""
    return ModelSettings(
        base_url=base_url,
        model=PLAYBOOK,
        api_key=Secret(KEY),
        timeout=timeout,
        deadline=deadline,
        max_retries=max_retries,
        backoff=timedelta(milliseconds=1),
        max_wait=max_wait,
        max_output_chars=max_output_chars,
        max_output_tokens=max_output_tokens,
        max_tool_calls=max_tool_calls,
    )


def ignore(_: str) -> None:
    """Ask for a stream and leave it."""


@asynccontextmanager
async def playing(toml: str) -> AsyncGenerator[PlaybookServer, None]:
    """Serve the playbook *toml* on a free port."""
    async with PlaybookServer(parse_playbook(toml, "test.toml")) as server:
        yield server


@asynccontextmanager
async def speaking(responses: Sequence[bytes]) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """Serve *responses* byte by byte as given, one for each connection, then close it.

    For what no playbook can say: servers that speak another dialect. Yields the base URL and the
    requests that came.
    """
    requests: list[bytes] = []
    left = iter(responses)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        requests.append(head + await reader.readexactly(length))
        writer.write(next(left))
        # A client that has read enough may go; Python 3.12 tells the loop of what is raised here.
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", requests


def http_response(
    body: bytes, content_type: str = "application/json", status: str = "200 OK", headers: str = ""
) -> bytes:
    """Return *body* as a whole HTTP response that closes the connection."""
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n{headers}\r\n"
    ).encode() + body


def event_stream(*events: bytes) -> bytes:
    """Return *events* as a response of server-sent events."""
    body = b"".join(b"data: " + event + b"\n\n" for event in events)
    return http_response(body, "text/event-stream")
