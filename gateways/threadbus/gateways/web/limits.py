"""Bounds on what a peer may send, as ASGI layers around an application.

Each refuses with a status, a JSON body ``{"error": …}`` that names the limit and the way out, and
nothing of what is inside. They know no protocol, so every gateway over HTTP wears the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DEFAULT_MAX_BODY_BYTES: Final = 8 * 1024 * 1024
DEFAULT_BODY_TIMEOUT_S: Final = 30.0
_DISCARD_BYTES: Final = 64 * 1024 * 1024
_DISCARD_S: Final = 5.0
_MAX_PRINCIPALS: Final = 10_000
_LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})


async def refuse(
    send: Send, status: int, error: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answer a request with an error and the end of the connection."""
    body = json.dumps({"error": error}).encode()
    said = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        # What is left of the request is not read.
        "connection": "close",
        **(headers or {}),
    }
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})


class BodyLimit:
    """Refuse a body that is too large or comes too slowly; the application gets it whole."""

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int = DEFAULT_MAX_BODY_BYTES,
        timeout_s: float = DEFAULT_BODY_TIMEOUT_S,
    ) -> None:
        """Wrap *app*.

        Args:
            app: what is protected.
            max_bytes: the largest body, inclusive.
            timeout_s: how long the whole body may take to arrive.
        """
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body under its bounds, then call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        if declared and (not declared.isdigit() or int(declared[:20]) > self._max_bytes):
            await self._refuse_size(receive, send)
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await _read(receive, self._max_bytes)
        except TimeoutError:
            await refuse(send, 408, f"the body did not arrive within {self._timeout_s:g} s")
            return
        if body is None:
            # The peer went away; there is nobody to answer.
            return
        if len(body) > self._max_bytes:
            await self._refuse_size(receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)

    async def _refuse_size(self, receive: Receive, send: Send) -> None:
        await read_away(receive, _DISCARD_BYTES, min(self._timeout_s, _DISCARD_S))
        await refuse(
            send,
            413,
            f"the body is over the limit of {self._max_bytes:,} bytes; "
            "send large content by reference, or in several messages",
        )


async def read_away(receive: Receive, max_bytes: int, timeout_s: float) -> int | None:
    """Let a peer finish what it sends, and keep nothing of it: it reads no answer before it has.

    Args:
        receive: where the body comes from.
        max_bytes: after how many no more is read.
        timeout_s: how long the whole of it may take.

    Returns:
        How many bytes came, at most one piece past *max_bytes*; None where it did not end in time
        or the peer went away.
    """
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while size <= max_bytes:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return size
            return size
    return None


async def _read(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the body, at most one piece past *max_bytes*; None where the peer went away."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > max_bytes or not message.get("more_body", False):
            return bytes(body)


class HostCheck:
    """Refuse what a browser was tricked into sending: a foreign ``Host`` or ``Origin``."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] = (), origins: Collection[str] = ()
    ) -> None:
        """Wrap *app*.

        Args:
            app: what is protected.
            hosts: names beside those of the loopback that ``Host`` may have, without a port;
                ``*`` allows all, behind a proxy that checks.
            origins: ``scheme://host[:port]`` that ``Origin`` may be, beside the loopback.
        """
        self._app = app
        self._hosts = _LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check both headers, then call the application."""
        if scope["type"] == "http":
            host = _host_name(header(scope, b"host"))
            if "*" not in self._hosts and host not in self._hosts:
                await refuse(
                    send, 421, "this Host is not served here; the operator allows it by --host-name"
                )
                return
            origin = header(scope, b"origin").lower()
            if origin and not self._allows(origin):
                await refuse(
                    send, 403, "this Origin is not allowed; the operator allows it by --origin"
                )
                return
        await self._app(scope, receive, send)

    def _allows(self, origin: str) -> bool:
        if origin in self._origins:
            return True
        try:
            return urlsplit(origin).hostname in _LOOPBACK_NAMES
        except ValueError:
            return False


class Rate:
    """How often one principal may ask: a bucket that refills evenly."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Fill every bucket.

        Args:
            per_second: requests that one principal may send on average.
            burst: requests that it may send at once.
            clock: seconds.
        """
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, principal: str) -> float:
        """Take one from the principal's bucket; return 0, or the seconds until there is room."""
        now = self._clock()
        left, since = self._buckets.pop(principal, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) * self._per_second)
        allowed = left >= 1
        self._buckets[principal] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MAX_PRINCIPALS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._per_second

    def __str__(self) -> str:
        return f"{self._per_second:g} requests a second (at once {self._burst})"


class RateLimit:
    """Bound how often one principal may ask."""

    def __init__(
        self,
        app: ASGIApp,
        per_second: float,
        burst: int,
        principal: Callable[[Scope], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap *app*.

        Args:
            app: what is protected.
            per_second: requests that one principal may send on average.
            burst: requests that it may send at once.
            principal: says whose request it is.
            clock: seconds.
        """
        self._app = app
        self._principal = principal
        self._rate = Rate(per_second, burst, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one from the principal's bucket, then call the application."""
        if scope["type"] == "http":
            wait = self._rate.take(self._principal(scope))
            if wait > 0:
                await refuse(
                    send,
                    429,
                    f"more than {self._rate}; try again later",
                    {"retry-after": str(math.ceil(wait))},
                )
                return
        await self._app(scope, receive, send)


def header(scope: Scope, name: bytes) -> str:
    """Return the first header of a request by its lower-case name; empty where there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return ""


def client_of(scope: Scope) -> str:
    """Return the address a request came from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _host_name(host: str) -> str:
    """Return a ``Host`` header without its port, lower case; empty where it is malformed."""
    host = host.lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.partition(":")
    return name if not port or port.isdigit() else ""
