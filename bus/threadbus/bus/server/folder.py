"""The data folder of a server and what is in it.

server.conf     written by us at each start, mode 0600
access.conf     a link to the accounts, where there are some; included by server.conf
server.lock     who uses the folder
server.log      the server's log; turned over, three files are kept
server.err      what the server printed before it opened its log, and a panic
ports/          the ports of the running server, written by it
jetstream/      the streams
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

import msgspec

from threadbus.bus.server.files import size_of, tail, write_private
from threadbus.bus.server.lock import DataLock
from threadbus.bus.server.settings import ACCESS_LINK, ServerSettings, render_config
from threadbus.bus.server_errors import DataFolderError


class Ports(msgspec.Struct, frozen=True):
    """The URLs that a server listens on, as it writes them down."""

    nats: list[str]
    monitoring: list[str] = []


class ServerFolder:
    """The files of one server, locked against another one."""

    def __init__(self, path: Path, lock: DataLock, *, is_temporary: bool) -> None:
        self.path = path
        self.lock = lock
        self.config = path / "server.conf"
        self.log = path / "server.log"
        self.output = path / "server.err"
        self._ports = path / "ports"
        self._is_temporary = is_temporary
        self._log_start = 0

    @classmethod
    async def open(cls, given: Path | None) -> ServerFolder:
        """Lock the folder *given*, which is made (mode 0700) if it is missing.

        Cancellation: locks nothing.

        Args:
            given: None makes a temporary folder, which :meth:`close` removes.

        Raises:
            DataFolderError: It cannot be made or written to.
            DataFolderLockedError: Another server uses it.
        """
        path = _make(given)
        try:
            return cls(path, await DataLock.acquire(path), is_temporary=given is None)
        except BaseException:
            if given is None:
                shutil.rmtree(path, ignore_errors=True)
            raise

    async def close(self) -> None:
        """Unlock the folder, and remove it if it is a temporary one; idempotent.

        Cancellation: leaves the rest of a temporary folder behind.
        """
        self.lock.release()
        if self._is_temporary:
            await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def write_config(self, settings: ServerSettings, host: str, port: int) -> None:
        """Write the configuration file, and forget what an earlier server left.

        Raises:
            DataFolderError: A file cannot be written.
        """
        content = render_config(
            settings, host=host, port=port, data=self.path, log=self.log, ports=self._ports
        )
        try:
            self._ports.mkdir(mode=0o700, exist_ok=True)
            for stale in self._ports.glob("*.ports"):
                # Of a killed server, whose pid may come again.
                stale.unlink()
            _link(self.path / ACCESS_LINK, settings.access)
            write_private(self.config, content)
            self._log_start = size_of(self.log)
        except OSError as error:
            raise DataFolderError(str(self.path), error.strerror or str(error)) from error

    def read_ports(self, pid: int) -> Ports | None:
        """Return the ports that the server of this *pid* wrote down; None before it has."""
        for path in self._ports.glob(f"*_{pid}.ports"):
            # DecodeError: half written.
            with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                ports = msgspec.json.decode(path.read_bytes(), type=Ports)
                if ports.nats:
                    return ports
        return None

    def last_lines(self) -> tuple[str, ...]:
        """Return what the server printed and logged last since the configuration was written."""
        return tail(self.output) + tail(self.log, self._log_start)


def _link(link: Path, target: Path | None) -> None:
    """Let *link* lead to *target*, or to nothing."""
    link.unlink(missing_ok=True)
    if target is not None:
        link.symlink_to(target.absolute())
        target.stat()


def _make(given: Path | None) -> Path:
    shown = given if given is not None else tempfile.gettempdir()
    try:
        if given is None:
            return Path(tempfile.mkdtemp(prefix="threadbus-"))
        path = given.absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the path.
        reason = error.strerror if isinstance(error, OSError) else None
        raise DataFolderError(str(shown), reason or str(error)) from error
    return path
