"""A NATS client of a few lines that sends whatever bytes a test wants, well-formed or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_DEADLINE_S = 20.0


class RawClient:
    """One connection that publishes to streams and waits for each acknowledgement."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def store(self, subject: bytes, body: bytes, *headers: bytes) -> int:
        """Publish to a stream and return the sequence, whatever the bytes are."""
        block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in headers) + b"\r\n"
        sizes = b"%d %d" % (len(block), len(block) + len(body))
        self._writer.write(b"HPUB %s ack %s\r\n%s%s\r\n" % (subject, sizes, block, body))
        answer = json.loads(await self._answer())
        assert "error" not in answer, answer
        return int(answer["seq"])

    async def _answer(self) -> bytes:
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                line = await self._reader.readline()
                assert line, "the server hung up"
                if line.startswith(b"PING"):
                    self._writer.write(b"PONG\r\n")
                elif line.startswith(b"{"):
                    return line
                else:
                    assert not line.startswith(b"-ERR"), line


@asynccontextmanager
async def raw_client(url: str) -> AsyncGenerator[RawClient]:
    """Connect a client for as long as the context lasts."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        assert (await reader.readline()).startswith(b"INFO ")
        writer.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        writer.write(b"SUB ack 1\r\n")
        yield RawClient(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()
