"""A web site on this machine whose every answer a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Page:
    """What one path answers."""

    body: bytes = b""
    status: int = 200
    media_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    gate: asyncio.Event | None = None
    """The answer waits for it."""
    endless: bool = False
    """The body is repeated for as long as somebody reads."""


@dataclass
class Site:
    """What is served."""

    host: str
    pages: dict[str, Page]
    asked: list[str] = field(default_factory=list[str])
    """Request lines and Host headers, as they came."""

    def url(self, path: str) -> str:
        """Return the address of a path."""
        return f"http://{self.host}{path}"


@asynccontextmanager
async def local_site(pages: Mapping[str, Page]) -> AsyncGenerator[Site]:
    """Serve pages on a free port for as long as the context lasts."""
    site = Site("", dict(pages))
    open_: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            host = next(x for x in head.splitlines() if x.lower().startswith("host:"))
            site.asked.append(f"{path} {host.partition(':')[2].strip()}")
            page = site.pages.get(path.partition("?")[0], Page(b"nothing here", 404))
            if page.gate is not None:
                await page.gate.wait()
            await _write(writer, page)
        writer.close()
        open_.discard(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    site.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        server.close()
        for writer in list(open_):
            writer.transport.abort()
        for page in site.pages.values():
            if page.gate is not None:
                page.gate.set()
        await server.wait_closed()


async def _write(writer: asyncio.StreamWriter, page: Page) -> None:
    head = {"Content-Type": page.media_type, "Connection": "close", **page.headers}
    if not page.endless:
        head["Content-Length"] = str(len(page.body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"HTTP/1.1 {page.status} Some\r\n{lines}\r\n".encode())
    writer.write(page.body)
    await writer.drain()
    while page.endless:
        writer.write(page.body)
        await writer.drain()
