"""Descriptors and files that belong to one process and one user."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 16 * 1024
_TAIL_LINES: Final = 12


class Descriptor:
    """A file descriptor that is closed once, and that a forked child does not keep.

    The system closes ours when we die, and a lock or a pipe then tells others. A child made by a
    bare fork (multiprocessing, os.fork) would hold a copy and keep that from happening.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        _open.add(self)

    def fileno(self) -> int:
        """Return the number of the open descriptor; -1 after :meth:`close`."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


_open: Final[weakref.WeakSet[Descriptor]] = weakref.WeakSet()


def _close_in_child() -> None:
    for descriptor in list(_open):
        descriptor.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_child)


def write_private(path: Path, content: bytes) -> None:
    """Replace *path* at once with *content*, readable by its owner only (mode 0600).

    A machine that loses power has the old content or the new one.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def size_of(path: Path) -> int:
    """Return the size of *path* in bytes; 0 if there is no such file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def tail(path: Path, after: int = 0) -> tuple[str, ...]:
    """Return the last lines of a text file, at most 12 of the last 16 KiB.

    Args:
        path: The file; a missing one has no lines.
        after: Nothing before this offset in bytes is returned, unless the file is now shorter.
    """
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start = after if after <= end else 0
            file.seek(max(start, end - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ()
    lines = (line.rstrip() for line in text.splitlines())
    return tuple(line for line in lines if line)[-_TAIL_LINES:]
