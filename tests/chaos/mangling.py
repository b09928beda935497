"""An HTTP proxy that sends requests twice, late, out of order, or loses their answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import httpx

from tests.chaos.waiting import pass_time

_MAX_BODY: Final = 1024 * 1024
_PATIENCE_S: Final = 30.0
_HOP_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding", "host"})


class _Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Mangler:
    """Passes requests on, each in one of the ways; made by :func:`mangling`."""

    def __init__(self, target: str, chance: random.Random, http: httpx.AsyncClient) -> None:
        self._target = target
        self._chance = chance
        self._http = http
        self._late: set[asyncio.Task[None]] = set()
        self.counts: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request of a connection, and answer it or not."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                request = await _read(reader)
                answer = await self._mangle(request)
                if answer is not None:
                    writer.write(_answer(answer))
                    await writer.drain()
        except (OSError, ValueError, EOFError, TimeoutError, httpx.HTTPError):
            # The client sees a connection that ends, and has to find out what became of it.
            self._count("broken")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _mangle(self, request: _Request) -> httpx.Response | None:
        luck = self._chance.random()
        if luck < 0.25:
            self._count("sent twice at once")
            both = await asyncio.gather(self._pass_on(request), self._pass_on(request))
            return self._chance.choice(both)
        if luck < 0.45:
            self._count("sent again later")
            self._send_later(request)
        elif luck < 0.65:
            # What others send meanwhile overtakes it.
            self._count("delayed")
            await pass_time(self._chance.uniform(0.1, 1.5))
        elif luck < 0.8:
            self._count("answer lost")
            await self._pass_on(request)
            return None
        return await self._pass_on(request)

    def _send_later(self, request: _Request) -> None:
        task = asyncio.create_task(self._again(request, self._chance.uniform(0.1, 4.0)))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _again(self, request: _Request, after_s: float) -> None:
        await pass_time(after_s)
        with suppress(httpx.HTTPError):
            await self._pass_on(request)

    async def _pass_on(self, request: _Request) -> httpx.Response:
        return await self._http.request(
            request.method,
            self._target + request.path,
            headers=dict(request.headers),
            content=request.body,
        )

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    async def finish(self) -> None:
        """Let what is late arrive."""
        if self._late:
            await asyncio.wait(self._late, timeout=_PATIENCE_S)
        for task in list(self._late):
            task.cancel()


async def _read(reader: asyncio.StreamReader) -> _Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (o.partition(":") for o in lines)}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _MAX_BODY:
        raise ValueError(f"a body of {length} bytes")
    body = await reader.readexactly(length)
    kept = {name: value for name, value in headers.items() if name not in _HOP_HEADERS}
    return _Request(method, path, kept, body)


def _answer(answer: httpx.Response) -> bytes:
    kept = [
        f"{name}: {value}\r\n"
        for name, value in answer.headers.items()
        if name.lower() not in {*_HOP_HEADERS, "content-encoding"}
    ]
    head = f"HTTP/1.1 {answer.status_code} x\r\n{''.join(kept)}"
    end = f"content-length: {len(answer.content)}\r\nconnection: close\r\n\r\n"
    return f"{head}{end}".encode("latin-1") + answer.content


@asynccontextmanager
async def mangling(target: str, chance: random.Random) -> AsyncGenerator[tuple[Mangler, str]]:
    """Run one before *target* and give it, and the URL that leads through it."""
    async with httpx.AsyncClient(timeout=_PATIENCE_S) as http:
        mangler = Mangler(target, chance, http)
        server = await asyncio.start_server(mangler.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield mangler, f"http://127.0.0.1:{port}"
            await mangler.finish()
        finally:
            server.close()
