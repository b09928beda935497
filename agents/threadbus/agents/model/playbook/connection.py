"""HTTP/1.1 on asyncio streams, with h11 for the protocol: one connection after another request.

Everything that a client can make large or slow is bounded: headers, body, the time until a request
is whole, the time that a response waits for a reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import h11
import msgspec

MAX_HEADER_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_READ_BYTES: Final = 64 * 1024
_IDLE_S: Final = 120.0
_REQUEST_S: Final = 30.0
_WRITE_S: Final = 30.0
_LINGER_S: Final = 2.0


class BrokenOffError(Exception):
    """A body that ends here on purpose: the connection is closed without the rest."""


class HttpRequest(msgspec.Struct, frozen=True):
    """A whole request."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes = b""


class HttpResponse(msgspec.Struct, frozen=True):
    """A response; a body that is no bytes is sent part by part."""

    status: int
    body: bytes | Iterator[bytes | float] = b""
    """Bytes, or parts of them and pauses in seconds."""
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    length: int | None = None
    """Of a body in parts, where it is known."""
    delay: float = 0
    """Seconds before it starts."""


class HttpError(Exception):
    """A request that gets no further than this."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
ErrorPage: TypeAlias = Callable[[HttpError], HttpResponse]


class HttpConnection:
    """One client's connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        error_page: ErrorPage,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._error_page = error_page
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._is_idle = True
        self._is_stopping = False

    def stop(self) -> None:
        """Close once the request that is being answered has its answer; at once if there is none.

        Idempotent.
        """
        self._is_stopping = True
        if self._is_idle:
            self._writer.transport.abort()

    async def serve(self) -> None:
        """Answer requests until the client or :meth:`stop` ends the connection."""
        try:
            while await self._serve_one() and not self._is_stopping:
                self._protocol.start_next_cycle()
        except BrokenOffError:
            pass
        # A client that is gone or too slow ends only its own connection.
        except (OSError, TimeoutError, h11.ProtocolError):
            self._writer.transport.abort()
        except BaseException:
            self._writer.transport.abort()
            raise
        finally:
            self._writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_WRITE_S):
                    await self._writer.wait_closed()

    async def _serve_one(self) -> bool:
        """Answer one request and return whether another may follow."""
        try:
            request = await self._request()
            if request is None:
                return False
            response = await self._handler(request)
        except HttpError as error:
            response = self._error_page(error)
        await self._send(response)
        self._is_idle = True
        if self._protocol.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return True
        await self._linger()
        return False

    async def _linger(self) -> None:
        # Closing while the client still sends would reset the connection under the answer.
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(_READ_BYTES):
                    pass

    async def _request(self) -> HttpRequest | None:
        event = await self._next_event(_IDLE_S)
        if isinstance(event, h11.ConnectionClosed):
            return None
        if not isinstance(event, h11.Request):
            raise HttpError(400, "this is not the start of an HTTP request")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        body = bytearray()
        # A body that says early that it is too large is not read at all.
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 15 or int(length) > MAX_BODY_BYTES):
            raise _too_large()
        try:
            async with asyncio.timeout(_REQUEST_S):
                while not isinstance(part := await self._next_event(_REQUEST_S), h11.EndOfMessage):
                    if not isinstance(part, h11.Data):
                        raise HttpError(400, "the request ends in the middle of its body")
                    body += part.data
                    if len(body) > MAX_BODY_BYTES:
                        raise _too_large()
        except TimeoutError as error:
            raise HttpError(408, f"the request was not whole after {_REQUEST_S:g} s") from error
        path = event.target.decode("latin-1").partition("?")[0]
        return HttpRequest(event.method.decode("latin-1"), path, headers, bytes(body))

    async def _next_event(self, seconds: float) -> h11.Event:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                raise HttpError(error.error_status_hint, str(error)) from error
            if event is h11.NEED_DATA:
                if self._protocol.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                async with asyncio.timeout(seconds):
                    data = await self._reader.read(_READ_BYTES)
                self._is_idle = self._is_idle and not data
                self._protocol.receive_data(data)
            elif isinstance(event, h11.Event):
                return event
            else:
                raise HttpError(400, "a request came before the last one was answered")

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the client goes away."""
        end = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(end):
                data = await self._reader.read(_READ_BYTES)
        except TimeoutError:
            return
        if not data:
            raise ConnectionResetError("the client has gone away")
        # The beginning of the next request.
        self._protocol.receive_data(data)
        await asyncio.sleep(end - asyncio.get_running_loop().time())

    async def _send(self, response: HttpResponse) -> None:
        if response.delay:
            await self._pause(response.delay)
        body = response.body
        length = len(body) if isinstance(body, bytes) else response.length
        headers = [
            ("Server", "threadbus-playbook"),
            ("Content-Type", response.content_type),
            *response.headers.items(),
            ("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)),
        ]
        if self._is_stopping:
            headers.append(("Connection", "close"))
        await self._write(h11.Response(status_code=response.status, headers=headers))
        for part in [body] if isinstance(body, bytes) else body:
            if isinstance(part, bytes):
                await self._write(h11.Data(data=part))
            else:
                await self._pause(part)
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._protocol.send(event)
        if data:
            self._writer.write(data)
            async with asyncio.timeout(_WRITE_S):
                await self._writer.drain()


def _too_large() -> HttpError:
    return HttpError(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
