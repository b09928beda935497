"""Serve an ASGI application on one address until it is left, with uvicorn.

The server takes no signals: whoever owns the process decides when it stops. A stop refuses new
connections at once, tells the application (so that long streams can end with a last word), and
cuts at the deadline what has not ended by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import uvicorn

from threadbus.gateways.errors import InvalidOptionError, ListenError, ServeError

DEFAULT_STOP_DEADLINE: Final = timedelta(seconds=10)
DEFAULT_MAX_CONNECTIONS: Final = 2000
_MAX_PORT: Final = 65_535
_MAX_URL_CHARS: Final = 1024
_BACKLOG: Final = 1024
_KEEP_ALIVE_S: Final = 75
_HEAD_S: Final = 30.0
"""How long a connection may take to begin its request, or to end the head of it."""
_TICKS: Final = 10
"""In how many ticks of the server, of a tenth of a second, it is looked at once."""
_GRACE_S: Final = 5.0
"""What the server itself may take after the deadline, to end its lifespan."""


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int
    """0 takes a free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


class Served(NamedTuple):
    """An application that is being served."""

    address: Address
    """With the port that was taken."""
    ended: asyncio.Future[None]
    """Done once the server has ended, by itself or by a stop."""

    @property
    def url(self) -> str:
        """Where it is reached from this machine, without a slash at the end."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address.host, self.address.host)  # noqa: S104
        return f"http://{Address(host, self.address.port)}"


def parse_address(text: str, option: str = "--http") -> Address:
    """Read ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT`` (this machine only).

    Raises:
        InvalidOptionError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed:
        host = host[1:-1]
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(_MAX_PORT))
    if not colon or not is_number or int(port) > _MAX_PORT or (":" in host and not is_bracketed):
        raise InvalidOptionError(
            option, text, f"it is HOST:PORT, the port from 0 (a free one) to {_MAX_PORT}"
        )
    return Address(host or "127.0.0.1", int(port))


def parse_base(text: str, option: str) -> str:
    """Read an address that paths are put behind; return it without a slash at the end.

    Raises:
        InvalidOptionError: it is none.
    """
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_web = False
    else:
        is_web = is_web and not (parts.query or parts.fragment or parts.username or parts.password)
    if not is_web or not text.isprintable() or " " in text or len(text) > _MAX_URL_CHARS:
        raise InvalidOptionError(
            option,
            text,
            f"it is http://… or https://…, without a query, {_MAX_URL_CHARS} characters at most",
        )
    return text.rstrip("/")


class _Server(uvicorn.Server):
    """A server that says when it is ready, and leaves signals to whoever owns the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._waiting: dict[Any, float] = {}
        """The connections without a request, and since when."""

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            self._close_slow()
        return await super().on_tick(counter)

    def _close_slow(self) -> None:
        """Close connections that never say what they want: the server itself waits for ever."""
        now = asyncio.get_running_loop().time()
        connections: set[Any] = set(self.server_state.connections)
        waiting = {one: self._waiting.get(one, now) for one in connections if _is_idle(one)}
        self._waiting = waiting
        for connection, since in waiting.items():
            if now - since >= _HEAD_S:
                connection.transport.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as error:
            # It would end the process; the owner hears of it instead.
            raise ServeError("", "the application did not start") from error
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _is_idle(connection: Any) -> bool:
    """Whether a connection of the server has no request, and no timer of the server's own."""
    cycle = connection.cycle
    is_between = cycle is None or cycle.response_complete
    return is_between and connection.timeout_keep_alive_task is None


@asynccontextmanager
async def serving(
    app: Callable[..., Any],
    address: Address,
    *,
    stop_deadline: timedelta = DEFAULT_STOP_DEADLINE,
    max_connections: int = DEFAULT_MAX_CONNECTIONS,
    on_stop: Callable[[], None] | None = None,
) -> AsyncGenerator[Served]:
    """Serve *app* for as long as the context lasts; entered once connections are taken.

    Args:
        app: the ASGI application.
        address: where to listen.
        stop_deadline: how long running requests may take once the context is left.
        max_connections: open connections; one more is answered with 503.
        on_stop: called before the stop, for the application to end its streams.

    Raises:
        ListenError: the address is taken, or not one of this machine.
        ServeError: the application did not start.

    Cancellation: stops the server as leaving does.
    """
    listener = _listen(address)
    taken = Address(address.host, listener.getsockname()[1])
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        ws="none",
        backlog=_BACKLOG,
        limit_concurrency=max_connections,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(stop_deadline.total_seconds())),
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name=f"threadbus.web[{taken}]")
    ready = asyncio.create_task(server.ready.wait(), name="threadbus.web.ready")
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            raise ServeError(str(taken), _why(task))
        yield Served(taken, task)
    finally:
        ready.cancel()
        if on_stop is not None:
            on_stop()
        server.should_exit = True
        await asyncio.wait({task}, timeout=stop_deadline.total_seconds() + _GRACE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            # Read, so that nobody warns of it: what ended it was raised above or is past.
            task.exception()
        listener.close()


async def serve_until(stop: asyncio.Event, served: Served) -> None:
    """Return once *stop* is set.

    Raises:
        ServeError: the server ended before.

    Cancellation: safe.
    """
    stopped = asyncio.create_task(stop.wait(), name="threadbus.web.stop")
    either: set[asyncio.Future[Any]] = {stopped, served.ended}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    if not stop.is_set():
        raise ServeError(str(served.address), _why(served.ended))


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol named asyncio sends small writes at once; else each answer waits for the
    # peer's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(str(address), error.strerror or str(error)) from error
    listener.setblocking(False)
    return listener


def _why(task: asyncio.Future[None]) -> str:
    if task.cancelled():
        return "it was cancelled"
    error = task.exception()
    if isinstance(error, ServeError):
        return error.reason
    return "it stopped" if error is None else f"{type(error).__name__}: {error}"
