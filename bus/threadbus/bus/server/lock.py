"""One server for a data folder: two would write over each other's files without noticing.

The lock is a flock on ``server.lock``. The server's own process inherits it, so the lock is held
exactly as long as a server may write, also when the one who started it is gone; and the system
lifts it with the last holder, so a lock cannot be left behind. The text in the file only names
the holders.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from threadbus.bus.server.files import Descriptor
from threadbus.bus.server_errors import (
    DataFolderError,
    DataFolderLockedError,
    UnsupportedPlatformError,
)

if sys.platform != "win32":
    import fcntl

_LOCK_FILE: Final = "server.lock"
_RECORD_BYTES: Final = 1024
_GLANCE_S: Final = 0.3
"""A reader of the state takes the lock for a moment: that must not count as a holder."""
_DYING_S: Final = 5.0
"""How long a server may take to end after the one who started it was killed."""
_PAUSE_S: Final = 0.02


class LockHolder(msgspec.Struct, frozen=True):
    """Who holds a data folder; 0 where it is not known."""

    owner: int = 0
    """The process that started the server."""
    server: int = 0
    """The server's process."""


class DataLock:
    """The right to run a server on one data folder."""

    def __init__(self, data: Path, descriptor: Descriptor) -> None:
        self._data = data
        self._descriptor = descriptor

    @classmethod
    async def acquire(cls, data: Path) -> DataLock:
        """Take the lock of the folder *data*.

        A server whose owner is dead is about to end, so it is waited for, up to 5 seconds.

        Cancellation: takes nothing.

        Raises:
            DataFolderLockedError: Another server uses the folder.
            DataFolderError: The folder is not writable, or its file system cannot lock.
        """
        descriptor = _open_lock(data)
        try:
            await _until_locked(data, descriptor)
            lock = cls(data, descriptor)
            lock.record_server(0)
        except BaseException:
            descriptor.close()
            raise
        return lock

    def fileno(self) -> int:
        """Return the descriptor that a server inherits to hold the lock as well."""
        return self._descriptor.fileno()

    def record_server(self, pid: int) -> None:
        """Write down the process of the server; 0 for none.

        Raises:
            DataFolderError: The file cannot be written.
        """
        text = msgspec.json.encode(LockHolder(owner=os.getpid(), server=pid))
        # Blanks to a fixed length: a reader never sees the end of an older, longer text.
        try:
            os.pwrite(self.fileno(), text.ljust(_RECORD_BYTES), 0)
        except OSError as error:
            raise DataFolderError(str(self._data), error.strerror or str(error)) from error

    def release(self) -> None:
        """Let go; the folder stays locked while a server that inherited the lock lives."""
        self._descriptor.close()


def lock_holder(data: Path) -> LockHolder | None:
    """Return who holds the folder *data*; None if nobody does, or if it cannot be seen."""
    try:
        descriptor = Descriptor(os.open(data / _LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, ValueError):
        # ValueError: a NUL in the path.
        return None
    try:
        if _try_lock(data, descriptor, exclusive=False):
            return None
        return _read_holder(descriptor)
    except DataFolderError:
        return None
    finally:
        descriptor.close()


async def _until_locked(data: Path, descriptor: Descriptor) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not _try_lock(data, descriptor, exclusive=True):
        holder = _read_holder(descriptor)
        patience = _GLANCE_S if is_alive(holder.owner) else _DYING_S
        if loop.time() - begun > patience:
            raise DataFolderLockedError(str(data), holder.owner, holder.server)
        await asyncio.sleep(_PAUSE_S)


def _open_lock(data: Path) -> Descriptor:
    try:
        fd = os.open(data / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataFolderError(str(data), error.strerror or str(error)) from error
    return Descriptor(fd)


def _try_lock(data: Path, descriptor: Descriptor, *, exclusive: bool) -> bool:
    if sys.platform == "win32":
        raise UnsupportedPlatformError(sys.platform)
    operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor.fileno(), operation | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        reason = f"its file system cannot lock files ({error.strerror or error})"
        raise DataFolderError(str(data), reason) from error
    return True


def _read_holder(descriptor: Descriptor) -> LockHolder:
    try:
        return msgspec.json.decode(os.pread(descriptor.fileno(), _RECORD_BYTES, 0), type=LockHolder)
    except msgspec.DecodeError:
        # Locked a moment ago, and not written yet.
        return LockHolder()


def is_alive(pid: int) -> bool:
    """Return whether there is a process *pid*, be it another user's or a zombie."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # Alive, and someone else's.
        return True
    return True
