"""The way to a remote A2A agent: bounded, with the line ends of Unicode and large integers kept.

The library splits a stream where Python sees line ends, also inside JSON, and its numbers are
doubles. So each line of an answer is mended before the library reads it, and what it sends on its
way out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx

from threadbus.gateways.a2a.exact import mark_numbers, unmark_numbers
from threadbus.gateways.text import escape_line_ends

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""


class MendingTransport(httpx.AsyncBaseTransport):
    """Mends what comes and goes; wraps the transport that sends."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        """Wrap *inner*, which is closed with this."""
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and give its answer, mended."""
        body = await request.aread()
        mended = unmark_numbers(body)
        if mended != body:
            headers = [item for item in request.headers.raw if item[0].lower() != b"content-length"]
            request = httpx.Request(
                request.method,
                request.url,
                headers=headers,
                content=mended,
                extensions=request.extensions,
            )
        # Unpacked, its lines could not be looked at as they come.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if not isinstance(response.stream, httpx.AsyncByteStream):
            return response
        headers = [item for item in response.headers.raw if item[0].lower() != b"content-length"]
        return httpx.Response(
            response.status_code,
            headers=headers,
            stream=_Mended(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the transport that sends."""
        await self._inner.aclose()


class _Mended(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for chunk in self._inner:
            rest += chunk
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            if len(rest) > MAX_ANSWER_BYTES:
                raise httpx.DecodingError(f"an answer has more than {MAX_ANSWER_BYTES:,} bytes")
            for line in lines:
                yield _line(line) + b"\n"
        if rest:
            yield _line(bytes(rest))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _line(line: bytes) -> bytes:
    field, payload = (line[:5], line[5:]) if line.startswith(b"data:") else (b"", line)
    if not payload.lstrip().startswith((b"{", b"[")):
        return line
    mended = mark_numbers(payload).decode("utf-8", "replace")
    return field + escape_line_ends(mended).encode()
