"""The small HTTP server of the metrics: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator, Callable
from urllib.parse import urlsplit

import pytest

from threadbus.agents.monitoring import (
    CannotListenError,
    MetricsMissingError,
    Request,
    Response,
    parse_address,
    serving,
)


def answer(request: Request) -> Callable[[], Response]:
    """Say what was asked."""
    return lambda: Response(200, f"{request.path} {request.accept}".encode())


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    """A running server."""
    async with serving("127.0.0.1", 0, answer) as where:
        yield where


async def said(url: str, sent: bytes) -> bytes:
    """Send bytes and return all that comes back."""
    parts = urlsplit(url)
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(sent)
            await writer.drain()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def test_a_path_and_what_is_accepted_reach_the_answer(url: str) -> None:
    """What stands behind a question mark is nobody's business."""
    got = await said(url, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\nACCEPT: a/b\r\n\r\n")

    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert got.endswith(b"\r\n\r\n/metrics a/b")


async def test_head_has_no_body(url: str) -> None:
    """Its length is told all the same."""
    got = await said(url, b"HEAD / HTTP/1.0\r\n\r\n")

    assert b"Content-Length: 2\r\n" in got
    assert got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/2\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
    ],
)
async def test_what_is_no_request_of_ours_is_refused(url: str, sent: bytes, status: bytes) -> None:
    """The answer says why, or the connection is cut; the next request is answered."""
    got = await said(url, sent)

    assert not got or got.split(b" ")[1] == status
    assert b"200 OK" in await said(url, b"GET / HTTP/1.1\r\n\r\n")


async def test_connections_beyond_the_bound_are_cut(url: str) -> None:
    """Those that say nothing hold no more than the bound, and others get in when they go."""
    parts = urlsplit(url)
    held = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(64)]
    over = await said(url, b"GET / HTTP/1.1\r\n\r\n")
    for _, writer in held:
        writer.close()
    async with asyncio.timeout(30):
        while b"200 OK" not in await said(url, b"GET / HTTP/1.1\r\n\r\n"):
            pass

    assert over == b""


async def test_an_address_that_is_taken_is_named(url: str) -> None:
    """The error has the address and the way out."""
    port = urlsplit(url).port or 0
    with pytest.raises(CannotListenError, match="--http") as raised:
        async with serving("127.0.0.1", port, answer):
            pass

    assert f"127.0.0.1:{port}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("", 80)),
        ("example.org:65535", ("example.org", 65535)),
    ],
)
def test_an_address_is_taken_apart(text: str, parsed: tuple[str, int]) -> None:
    """Host and port, with brackets around what has colons."""
    assert parse_address(text) == parsed


@pytest.mark.parametrize("text", ["", "9464", "a:b", "a:-1", "a:65536", "::1:80", "a:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """Rather than listening somewhere else."""
    with pytest.raises(ValueError):  # noqa: PT011 - its text is the address
        parse_address(text)


@pytest.mark.parametrize(
    "error", [CannotListenError("a:1", "taken"), MetricsMissingError("prometheus-client")]
)
def test_errors_survive_pickling(error: Exception) -> None:
    """With their text."""
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes
