"""A TCP proxy before a server, which can cut, freeze, slow down or bend what passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

_CHUNK: Final = 4096

Filter = Callable[[bytes], bytes]
"""What becomes of the bytes that pass; empty means dropped."""


class Proxy:
    """Passes bytes on until it is told otherwise. Made by :func:`proxied`."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.to_client: Filter | None = None
        """Bends what the server says."""
        self.pause_s = 0.0
        """How long each 4 KiB wait before they pass, in either direction."""
        self.refuses = False
        """Whether new connections are cut at once."""
        self.connections = 0
        """How many there were."""

    @property
    def open_connections(self) -> int:
        """How many connections pass bytes now."""
        return len(self._writers) // 2

    def freeze(self) -> None:
        """Let nothing pass any more, and tell nobody: a half-open connection."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Let bytes pass again, those that were held back too."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what one client and the server say, until one of them ends."""
        self.connections += 1
        if self.refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, far_writer, None))
                group.create_task(self._pass_on(far_reader, writer, self))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bent_by: Proxy | None
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._flowing.wait()
                if self.pause_s:
                    await _pass_time(self.pause_s)
                if bent_by is not None and bent_by.to_client is not None:
                    chunk = bent_by.to_client(chunk)
                writer.write(chunk)
                await writer.drain()
        # One side ended: so does the other.
        writer.transport.abort()


async def _pass_time(seconds: float) -> None:
    """Let time pass: a slow network is made of nothing else."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


@asynccontextmanager
async def proxied(target: str) -> AsyncGenerator[tuple[Proxy, str]]:
    """Run a proxy before *target* and give it, and the URL that leads through it."""
    proxy = Proxy(target)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer), name="tests.proxy")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, f"nats://127.0.0.1:{port}"
    finally:
        server.close()
        proxy.cut()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
