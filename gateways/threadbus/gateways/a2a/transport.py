"""The way to a remote A2A agent: bounded, with the line ends of Unicode and large integers kept.

The library splits a stream where Python sees line ends, also inside JSON, and its numbers are
doubles. So each line of an answer is mended before the library reads it, and what it sends on its
way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import httpx

from threadbus.gateways.a2a.exact import mark_numbers, unmark_numbers
from threadbus.gateways.a2a.reach import Reach
from threadbus.gateways.text import escape_line_ends

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""

_ANSWER_S: Final = 120.0
"""How long an answer that is no stream may take to arrive, once it has begun."""


class MendingTransport(httpx.AsyncBaseTransport):
    """Mends what comes and goes; wraps the transport that sends."""

    def __init__(self, inner: httpx.AsyncBaseTransport, reach: Reach) -> None:
        """Wrap *inner*, which is closed with this.

        Args:
            inner: sends.
            reach: says where to; it is asked before each request.
        """
        self._inner = inner
        self._reach = reach

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and give its answer, mended.

        Raises:
            AddressRefusedError: the agent's card leads to where nothing is sent.
        """
        target = await self._reach.check(str(request.url))
        body = unmark_numbers(await request.aread())
        headers = [item for item in request.headers.raw if item[0].lower() != b"content-length"]
        extensions = dict(request.extensions)
        if target is not None:
            # The certificate has to be that of the name, not of the IP.
            extensions["sni_hostname"] = target.host
        request = httpx.Request(
            request.method,
            request.url if target is None else target.pinned,
            headers=headers,
            content=body,
            extensions=extensions,
        )
        # Unpacked, its lines could not be looked at as they come.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            return response
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            # A few bytes may become gigabytes.
            await response.aclose()
            raise httpx.DecodingError("an answer is compressed, which was not asked for")
        is_stream = response.headers.get("Content-Type", "").lower().startswith("text/event-stream")
        headers = [item for item in response.headers.raw if item[0].lower() != b"content-length"]
        return httpx.Response(
            response.status_code,
            headers=headers,
            stream=(_Events if is_stream else _Answer)(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the transport that sends."""
        await self._inner.aclose()


class _Answer(httpx.AsyncByteStream):
    """An answer in one piece."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = bytearray()
        try:
            async with asyncio.timeout(_ANSWER_S):
                async for chunk in self._inner:
                    whole += chunk
                    _bound(len(whole))
        except TimeoutError:
            raise httpx.ReadTimeout(f"an answer took more than {_ANSWER_S:g} s") from None
        yield _line(bytes(whole))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Events(_Answer):
    """A stream, line by line: an event, of however many lines, is bounded as an answer is."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        size = 0
        async for chunk in self._inner:
            first, *others = chunk.split(b"\n")
            # What came before is not looked through again.
            rest += first
            size += len(first)
            for following in others:
                _bound(size)
                line = bytes(rest)
                # A blank line ends an event.
                size = (size if line.strip(b"\r") else 0) + len(following)
                rest = bytearray(following)
                yield _line(line) + b"\n"
            _bound(size)
        if rest:
            yield _line(bytes(rest))


def _bound(size: int) -> None:
    if size > MAX_ANSWER_BYTES:
        raise httpx.DecodingError(f"an answer has more than {MAX_ANSWER_BYTES:,} bytes")


def _line(line: bytes) -> bytes:
    field, payload = (line[:5], line[5:]) if line.startswith(b"data:") else (b"", line)
    if not payload.lstrip().startswith((b"{", b"[")):
        return line
    mended = mark_numbers(payload).decode("utf-8", "replace")
    return field + escape_line_ends(mended).encode()
