"""Bounds on what a peer may send to a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadbus.gateways.web.limits import BodyLimit, HostCheck, RateLimit, client_of


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _scope(headers: dict[str, str] | None = None, client: str = "192.0.2.1") -> Scope:
    said = {"host": "localhost:80", **(headers or {})}
    return {
        "type": "http",
        "headers": [(key.encode(), value.encode()) for key, value in said.items()],
        "client": (client, 1),
    }


async def _call(
    app: ASGIApp, scope: Scope, pieces: Sequence[bytes] = (b"",), *, stalls: bool = False
) -> tuple[int, bytes, dict[str, str]]:
    """Send one request of several pieces and return the status, the body and the headers."""
    sent: list[Message] = []
    left = list(pieces)

    async def receive() -> Message:
        if not left:
            if stalls:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left) or stalls}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if not sent:
        return 0, b"", {}
    start, *rest = sent
    headers = {key.decode(): value.decode() for key, value in start["headers"]}
    return start["status"], b"".join(message["body"] for message in rest), headers


async def test_body_at_limit_passes() -> None:
    """A body of exactly the limit arrives whole, also in pieces."""
    status, body, _ = await _call(BodyLimit(_echo, 6), _scope(), [b"abc", b"def"])

    assert (status, body) == (200, b"abcdef")


async def test_body_over_limit_is_refused() -> None:
    """A body past the limit is refused and the limit is named, also where no length was said."""
    status, body, headers = await _call(BodyLimit(_echo, 5), _scope(), [b"abc", b"def"])

    assert status == 413
    assert "limit of 5 bytes" in json.loads(body)["error"]
    assert headers["connection"] == "close"


@pytest.mark.parametrize("length", ["6", "999999999999999999999999999999", "-1", "x"])
async def test_declared_length_is_refused_unread(length: str) -> None:
    """A declared length past the limit, or none at all, is refused before anything is read."""
    status, _, _ = await _call(BodyLimit(_echo, 5), _scope({"content-length": length}), [])

    assert status == 413


async def test_slow_body_is_refused() -> None:
    """A body that never ends is given up."""
    app = BodyLimit(_echo, 100, timeout_s=0.01)

    status, _, _ = await _call(app, _scope(), [b"a"], stalls=True)

    assert status == 408


async def test_peer_that_leaves_reaches_nothing() -> None:
    """A peer that goes away in its body does not reach the application."""
    status, _, _ = await _call(BodyLimit(_echo, 100), _scope(), [])

    assert status == 0


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("bus.example", 200),
        ("BUS.example:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:80@evil", 421),
        ("", 421),
    ],
)
async def test_host(host: str, expected: int) -> None:
    """Only names of the loopback and those that were allowed are served."""
    status, _, _ = await _call(HostCheck(_echo, ["bus.example"]), _scope({"host": host}))

    assert expected == status


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:3000", 200),
        ("https://ui.example", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
async def test_origin(origin: str, expected: int) -> None:
    """A page of somebody else's cannot send a request through a browser."""
    app = HostCheck(_echo, origins=["https://ui.example"])

    status, _, _ = await _call(app, _scope({"origin": origin}))

    assert expected == status


async def test_all_hosts() -> None:
    """A star allows every host, for what stands behind a proxy."""
    status, _, _ = await _call(HostCheck(_echo, ["*"]), _scope({"host": "any.example"}))

    assert status == 200


async def test_rate_limit_is_per_principal() -> None:
    """Who asks too often is told when to come back; others are not touched; time heals it."""
    now = [0.0]
    app = RateLimit(_echo, 0.5, 2, client_of, lambda: now[0])

    seen = [(await _call(app, _scope()))[0] for _ in range(3)]
    refused = await _call(app, _scope())
    other = await _call(app, _scope(client="192.0.2.2"))
    now[0] = 2.0
    later = await _call(app, _scope())

    assert seen == [200, 200, 429]
    assert (refused[0], refused[2]["retry-after"]) == (429, "2")
    assert other[0] == 200
    assert later[0] == 200
