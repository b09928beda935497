"""Run one server for a person, until they end it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threadbus.bus.server.embedded import EmbeddedServer
from threadbus.bus.server.probe import NOT_NATS, read_info
from threadbus.bus.server.settings import (
    DEFAULT_PORT,
    ServerSettings,
    check_address,
    reachable_host,
    server_url,
)
from threadbus.bus.server.state import (
    ServerState,
    default_data_folder,
    forget_state,
    write_state,
)
from threadbus.bus.server_errors import (
    PortInUseError,
    ServerAlreadyRunningError,
    ServerExitedError,
)

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_foreground(
    *,
    data: Path | None = None,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    settings: ServerSettings | None = None,
    on_ready: Callable[[EmbeddedServer], Awaitable[None] | None] | None = None,
) -> None:
    """Run a server until SIGINT, SIGTERM or SIGHUP, and make it known to :func:`read_state`.

    Must be called in the main thread, which is the one that gets signals.

    Cancellation: stops the server, as a signal does.

    Args:
        data: The data folder, which outlives the server; None is the user's own.
        host: Where to listen. Without *access* in the settings whoever reaches the port is let in.
        port: Where to listen; 0 takes a free port.
        settings: Limits and options.
        on_ready: Called once, when the server answers.

    Raises:
        ServerAlreadyRunningError: A NATS server listens on the port already.
        PortInUseError: Another program does.
        DataFolderLockedError: A server, on another port, uses the data folder.
        ServerExitedError: The server ended by itself.
        EmbeddedServerError: It could not be started, as :class:`EmbeddedServer` says.
    """
    check_address(host, port)
    if port:
        await _refuse_taken(host, port)
    server = EmbeddedServer(
        data if data is not None else default_data_folder(),
        host=host,
        port=port,
        settings=settings,
    )
    running = asyncio.timeout(None)
    try:
        async with running:
            # From before the start: a signal in the middle of it must not skip the clean end.
            with _ended_by_signals(running):
                await _serve(server, on_ready)
    except PortInUseError as error:
        if error.port == port:
            # Someone was quicker since we looked.
            await _refuse_taken(host, port)
        raise
    except TimeoutError:
        if not running.expired():
            raise


async def _refuse_taken(host: str, port: int) -> None:
    try:
        info = await read_info(reachable_host(host), port)
    except OSError:
        return
    if info is None:
        raise PortInUseError(host, port, NOT_NATS)
    raise ServerAlreadyRunningError(server_url(host, port), info.version, info.jetstream)


@contextlib.contextmanager
def _ended_by_signals(running: asyncio.Timeout) -> Generator[None, None, None]:
    """Let a signal expire *running*, which cancels what is in it and tells that from others."""
    loop = asyncio.get_running_loop()

    def expire() -> None:
        if not running.expired():
            running.reschedule(loop.time())

    # One that is ignored, as SIGHUP under nohup, stays so.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, expire)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


async def _serve(
    server: EmbeddedServer, on_ready: Callable[[EmbeddedServer], Awaitable[None] | None] | None
) -> None:
    async with server:
        state = ServerState(
            url=server.url,
            pid=server.pid,
            started_at=datetime.now(UTC),
            data=server.data,
            version=server.version,
        )
        write_state(state, server.port)
        try:
            if on_ready is not None:
                doing = on_ready(server)
                if doing is not None:
                    await doing
            exit_code = await server.wait()
            raise ServerExitedError(exit_code, server.log_tail, str(server.log_path))
        finally:
            forget_state(state, server.port)
