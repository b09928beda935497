"""What is written in one turn of the loop goes out together, and nothing is lost or reordered."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.bus_env import soon
from threadbus.gateways.web.gathering import GatheredTransport
from threadbus.gateways.web.serving import Address, serving

_PIECE = b"x" * 1024


@dataclass
class _Reader(asyncio.Protocol):
    """Notes each piece as it arrives."""

    pieces: list[bytes] = field(default_factory=list[bytes])
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@asynccontextmanager
async def _pair() -> AsyncGenerator[tuple[GatheredTransport, asyncio.Transport, _Reader]]:
    """Connect a gathered transport over a real socket with whoever notes the pieces."""
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=here)
    _, reader = await loop.create_connection(_Reader, sock=there)
    try:
        yield GatheredTransport(transport), transport, reader
    finally:
        transport.close()
        await soon(reader.ended.wait())


async def test_head_and_body_are_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer is woken once for an answer."""
    written: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving(app, Address("127.0.0.1", 0)) as served:
        loop = asyncio.get_running_loop()
        transport, reader = await loop.create_connection(_Reader, *served.address)
        write = type(transport).write

        def noted(to: asyncio.Transport, data: bytes) -> None:
            if data and to is not transport:
                written.append(data)
            write(to, data)

        monkeypatch.setattr(type(transport), "write", noted)
        transport.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        await soon(reader.ended.wait())

    assert len(written) == 1
    assert b"".join(reader.pieces) == written[0]
    assert written[0].startswith(b"HTTP/1.1 200")
    assert written[0].endswith(b"hello")


async def test_close_and_eof_come_behind_what_was_written() -> None:
    """The end of a connection drops nothing."""
    async with _pair() as (gathered, _, reader):
        gathered.write(b"one ")
        gathered.write(b"")
        gathered.write(b"two")
        gathered.close()
        await soon(reader.ended.wait())
        assert b"".join(reader.pieces) == b"one two"
    async with _pair() as (gathered, _, reader):
        gathered.write(b"three")
        gathered.write_eof()
        await soon(reader.ended.wait())
        assert reader.pieces == [b"three"]


async def test_much_is_not_held() -> None:
    """Who writes on and on within one turn feels that the peer does not take it."""
    async with _pair() as (gathered, transport, reader):
        assert reader.transport is not None
        reader.transport.pause_reading()
        for _ in range(4096):
            gathered.write(_PIECE)
        held = gathered.get_write_buffer_size() - transport.get_write_buffer_size()
        assert 0 <= held <= 65 * 1024
        assert transport.get_write_buffer_size() > 0
        reader.transport.resume_reading()
        gathered.close()
        await soon(reader.ended.wait())
    assert sum(map(len, reader.pieces)) == 4096 * len(_PIECE)


async def test_abort_drops_what_is_held() -> None:
    """Nothing comes after the end."""
    async with _pair() as (gathered, transport, reader):
        gathered.write(b"never")
        gathered.abort()
        assert gathered.is_closing()
        assert transport.is_closing()
        await soon(reader.ended.wait())
    assert reader.pieces == []
