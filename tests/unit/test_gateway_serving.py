"""Serving an ASGI application: ready, stopped in order, and no signals taken."""

from __future__ import annotations

import asyncio
import pickle
import signal
from datetime import timedelta

import pytest
from starlette.types import Receive, Scope, Send

from threadbus.gateways import GatewayError
from threadbus.gateways.errors import InvalidOptionError, ListenError, ServeError
from threadbus.gateways.web.serving import (
    Address,
    parse_address,
    parse_base,
    serve_until,
    serving,
)


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def _get(address: Address) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8000", Address("127.0.0.1", 8000)),
        ("[::1]:0", Address("::1", 0)),
        (":8000", Address("127.0.0.1", 8000)),
        ("bus.example:65535", Address("bus.example", 65535)),
    ],
)
def test_address(text: str, expected: Address) -> None:
    """An address is a host and a port; without a host it is this machine."""
    assert expected == parse_address(text)


@pytest.mark.parametrize(
    "text", ["", "8000", "host", "host:", "host:65536", "::1:80", "h:٣", "h:-1"]
)
def test_bad_address(text: str) -> None:
    """What is no address is refused, with what it should look like."""
    with pytest.raises(InvalidOptionError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    "error",
    [ListenError("h:1", "taken"), ServeError("h:1", "why"), InvalidOptionError("--http", "x", "y")],
)
def test_errors_travel(error: GatewayError) -> None:
    """Errors of a gateway have one root, pickle, and name what is wrong."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 -- made a line above

    assert str(error) == str(copy)
    assert error.args[0] in str(error)


async def test_serves_until_left() -> None:
    """An application answers as soon as the context is entered, and no more once it is left."""
    async with serving(_hello, Address("127.0.0.1", 0)) as served:
        answer = await _get(served.address)

    assert b"hello" in answer
    assert served.ended.done()
    with pytest.raises(OSError, match=r".+"):
        await _get(served.address)


async def test_taken_port_is_told() -> None:
    """A port that somebody has is an error that names it."""
    async with serving(_hello, Address("127.0.0.1", 0)) as served:
        with pytest.raises(ListenError, match=str(served.address.port)):
            async with serving(_hello, served.address):
                pass


async def test_application_that_does_not_start() -> None:
    """An application that fails at its start is an error, not the end of the process."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no bus"})

    with pytest.raises(ServeError, match="did not start"):
        async with serving(broken, Address("127.0.0.1", 0)):
            pass


async def test_signals_stay_with_the_owner() -> None:
    """The handlers of signals are the same before, while and after it serves."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async with serving(_hello, Address("127.0.0.1", 0)):
        while_serving = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    assert before == while_serving
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


async def test_stop_tells_the_streams() -> None:
    """A stream that is told of the stop ends with a last word."""
    stop = asyncio.Event()
    started = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _hello(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        started.set()
        await stop.wait()
        await send({"type": "http.response.body", "body": b"last word"})

    async with serving(stream, Address("127.0.0.1", 0), on_stop=stop.set) as served:
        asked = asyncio.create_task(_get(served.address))
        await started.wait()

    assert b"last word" in await asked


async def test_stop_cuts_at_the_deadline() -> None:
    """A request that does not end is cut, so that a stop always ends."""
    started = asyncio.Event()
    cut = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _hello(scope, receive, send)
            return
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    deadline = timedelta(seconds=1)
    async with serving(endless, Address("127.0.0.1", 0), stop_deadline=deadline) as served:
        asked = asyncio.create_task(_get(served.address))
        await started.wait()

    async with asyncio.timeout(20):
        await cut.wait()
        await asked


@pytest.mark.parametrize("text", ["https://bus.example", "http://[::1]:80/a/", "http://x:8/"])
def test_a_base(text: str) -> None:
    """An address that paths go behind has no slash at the end."""
    assert parse_base(text, "--public-url") == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "ftp://x",
        "https://",
        "https://u:p@x",
        "https://x?q",
        "https://x/#f",
        "https://[::1",
        "https://x:99999",
        "https://x y",
        "https://x/" + "y" * 1024,
    ],
)
def test_what_is_no_base(text: str) -> None:
    """What no path can be put behind is refused at the start, with the option's name."""
    with pytest.raises(InvalidOptionError, match="--public-url"):
        parse_base(text, "--public-url")


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_heads_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that never says what it wants, at first or later, is closed."""
    monkeypatch.setattr("threadbus.gateways.web.serving._HEAD_S", 0.2)
    said: list[list[bytes]] = [[], [HEAD[:-2]], [HEAD, b"G"], [HEAD, HEAD, b"P"]]
    async with asyncio.timeout(30), serving(_hello, Address("127.0.0.1", 0)) as served:
        slow = [await asyncio.open_connection(*served.address) for _ in said]
        for (reader, writer), pieces in zip(slow, said, strict=True):
            for piece in pieces:
                writer.write(piece)
                if piece == HEAD:
                    await reader.readuntil(b"0\r\n\r\n")
        for reader, writer in slow:
            assert await reader.read() == b""
            writer.close()
        answer = await _get(served.address)

    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_long_answer_is_no_slow_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is worked on for long is left alone, while a later connection is closed."""
    monkeypatch.setattr("threadbus.gateways.web.serving._HEAD_S", 0.2)
    asked, is_closed = asyncio.Event(), asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.set()
            await is_closed.wait()
        await _hello(scope, receive, send)

    async with asyncio.timeout(30), serving(wait, Address("127.0.0.1", 0)) as served:
        answer = asyncio.create_task(_get(served.address))
        await asked.wait()
        reader, writer = await asyncio.open_connection(*served.address)
        assert await reader.read() == b""
        is_closed.set()
        writer.close()
        assert (await answer).startswith(b"HTTP/1.1 200")


async def test_serve_until_a_stop() -> None:
    """Waiting for a stop ends with it, and raises where the server ends first."""
    stop = asyncio.Event()
    async with serving(_hello, Address("127.0.0.1", 0)) as served:
        asyncio.get_running_loop().call_soon(stop.set)
        await serve_until(stop, served)
        served.ended.cancel()
        with pytest.raises(ServeError, match="cancelled"):
            await serve_until(asyncio.Event(), served)
