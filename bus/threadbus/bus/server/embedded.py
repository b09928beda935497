"""A nats-server of our own, for as long as an ``async with`` block lasts.

Ports: with port 0 the server itself asks the system for a free one and writes down which it got
(``ports_file_dir``), in a file that carries its pid. To look for a free port first and hand it
over would race with everyone else who does so. The same file, on every port, proves that it is
our server which listens and not another one that was there before. A second :meth:`start` keeps
the port, so that clients find the server again.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from datetime import timedelta
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from threadbus.bus.server.binary import find_server_binary
from threadbus.bus.server.folder import ServerFolder
from threadbus.bus.server.process import LeashedServer, finish
from threadbus.bus.server.ready import until_ready
from threadbus.bus.server.reloading import reload_process
from threadbus.bus.server.settings import ServerSettings, check_address, server_url
from threadbus.bus.server_errors import (
    ServerStartTimeoutError,
    ServerStateError,
    UnsupportedPlatformError,
)


class _State(Enum):
    NEW = "not entered yet"
    OPEN = "open"
    CLOSED = "closed"


class EmbeddedServer:
    """A nats-server with JetStream that this process starts, and that never outlives it.

    Entering starts it and waits until JetStream answers; leaving stops it, also by an exception
    or a cancellation. An instance is entered once.

    Args:
        data: Folder of the streams, the log and the configuration; made if it is missing. None
            takes a temporary folder that is removed at the end.
        host: Where to listen. Without *access* in the settings whoever reaches the port is let in.
        port: Where to listen; 0 takes a free port.
        settings: Limits and options.
        start_timeout: How long :meth:`start` may take.
        stop_timeout: How long the server may take to end on SIGTERM; then it is killed.

    Raises:
        InvalidServerSettingError: *host* or *port* cannot be listened on.
        UnsupportedPlatformError: This is Windows.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: ServerSettings | None = None,
        start_timeout: timedelta = timedelta(seconds=60),
        stop_timeout: timedelta = timedelta(seconds=5),
    ) -> None:
        self._state = _State.NEW
        if sys.platform == "win32":
            raise UnsupportedPlatformError(sys.platform)
        check_address(host, port)
        self._given_data = data
        self._folder: ServerFolder | None = None
        self._host = host
        self._port = port
        self._monitor_url: str | None = None
        self._settings = settings or ServerSettings()
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._turn = asyncio.Lock()
        self._server: LeashedServer | None = None
        self._version = ""

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._opened.path

    @property
    def log_path(self) -> Path:
        """The server's log file, in the data folder."""
        return self._opened.log

    @property
    def url(self) -> str:
        """Where to connect; stays the same over :meth:`kill` and :meth:`start`."""
        scheme = "tls" if self._settings.tls_cert is not None else "nats"
        return server_url(self._host, self.port, scheme)

    @property
    def port(self) -> int:
        """The port of the server, never 0."""
        if self._port == 0:
            raise self._wrong_state("tell its port", "start it first")
        return self._port

    @property
    def monitor_url(self) -> str | None:
        """Where the HTTP monitoring page is, if there is one."""
        return self._monitor_url

    @property
    def version(self) -> str:
        """The version of the server; empty before the first start."""
        return self._version

    @property
    def pid(self) -> int:
        """The process of the running server.

        Raises:
            ServerStateError: It does not run.
        """
        if self._server is None or self._server.exit_code is not None:
            raise self._wrong_state("tell its process", "start it first")
        return self._server.pid

    @property
    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self._server is not None and self._server.exit_code is None

    @property
    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the server wrote since it was started, at most 12 of each file."""
        return self._opened.last_lines()

    async def __aenter__(self) -> Self:
        if self._state is not _State.NEW:
            raise self._wrong_state("enter", "make a new EmbeddedServer")
        self._state = _State.OPEN
        try:
            self._folder = await ServerFolder.open(self._given_data)
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._state is _State.OPEN:
            # Before the warning, which raises where warnings are errors.
            if self._server is not None:
                self._server.let_go()
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)

    async def start(self) -> None:
        """Start the server again after :meth:`stop`, :meth:`kill` or a crash.

        Port and data are those it had before. Entering the context has started it already.

        Cancellation: kills what was started.

        Raises:
            ServerStateError: It runs, or the context is not open.
            ServerBinaryMissingError: No nats-server is installed that is new enough.
            DataFolderError: A file in the data folder cannot be written.
            ServerSpawnError: The system does not start another process.
            PortInUseError: Another program listens on the port.
            ServerStartError: The server ended before it was ready.
            ServerStartTimeoutError: It was not ready within *start_timeout*.
        """
        async with self._turn:
            self._check_open()
            if self.is_running:
                raise self._wrong_state("start", "stop() or kill() it first")
            if self._server is not None:
                # It may have crashed: its watchdog still waits.
                self._server.let_go()
            try:
                await self._launch()
            except BaseException:
                if self._server is not None:
                    await self._server.kill()
                raise

    async def reload(self) -> None:
        """Have the running server read its accounts again; who is not in them any more is cut.

        Cancellation: it may have reloaded.

        Raises:
            ServerStateError: It does not run.
            ReloadError: It did not take them; the old ones are in force.
        """
        await reload_process(self.pid, self.log_path, self._settings.access)

    async def stop(self, deadline: timedelta | None = None) -> None:
        """End the server: SIGTERM, and SIGKILL after *deadline*. Idempotent.

        Clients are cut off at once. Cancellation: kills the server.

        Args:
            deadline: The default is *stop_timeout*.

        Raises:
            ServerStopError: The server outlived SIGKILL.
        """
        async with self._turn:
            if self._server is not None:
                await self._server.stop(self._stop_timeout if deadline is None else deadline)

    async def kill(self) -> None:
        """Kill the server with SIGKILL and wait until it is gone, for fault tests. Idempotent.

        Cancellation: is put off until the server is gone.

        Raises:
            ServerStopError: The server outlived SIGKILL.
        """
        async with self._turn:
            if self._server is not None:
                await self._server.kill()

    async def wait(self) -> int:
        """Wait until the server's process ends, for whatever reason.

        Cancellation: leaves the server alone.

        Returns:
            The exit code; negative is the number of a signal.

        Raises:
            ServerStateError: It was never started.
        """
        if self._server is None:
            raise self._wrong_state("wait for its end", "enter its context first")
        return await self._server.wait()

    async def aclose(self) -> None:
        """Stop the server and remove a temporary data folder; idempotent.

        Cancellation: kills the server instead, and cleans up all the same.
        """
        if self._state is not _State.OPEN:
            return
        self._state = _State.CLOSED
        try:
            await self.stop()
        finally:
            await finish(self._close(), "threadbus.server.close")

    @property
    def _opened(self) -> ServerFolder:
        if self._folder is None:
            raise self._wrong_state("tell its folder", "enter its context first")
        return self._folder

    def _check_open(self) -> None:
        # Also in the middle of a start: another task may close meanwhile.
        if self._state is not _State.OPEN:
            raise self._wrong_state("start", "make a new EmbeddedServer and enter its context")

    async def _launch(self) -> None:
        binary = await find_server_binary()
        self._check_open()
        folder = self._opened
        folder.write_config(self._settings, self._host, self._port)
        self._server = await LeashedServer.start(binary.path, folder)
        folder.lock.record_server(self._server.pid)
        deadline_s = self._start_timeout.total_seconds()
        try:
            async with asyncio.timeout(deadline_s):
                ready = await until_ready(self._server, folder, self._host, self._check_open)
        except TimeoutError as error:
            lines = folder.last_lines()
            raise ServerStartTimeoutError(deadline_s, lines, str(folder.log)) from error
        self._port, self._monitor_url, self._version = ready

    async def _close(self) -> None:
        async with self._turn:
            try:
                if self._server is not None:
                    await self._server.kill()
            finally:
                if self._folder is not None:
                    await self._folder.close()

    def _wrong_state(self, wanted: str, way_out: str) -> ServerStateError:
        state = self._state.value
        if self._state is _State.OPEN:
            state = "running" if self.is_running else "not running"
        return ServerStateError(wanted, state, way_out)
