"""Measure and remove a folder that hostile code filled.

Neither recursion nor long paths: the folder may be nested deeper than both allow. Symbolic links
are never followed. Standard library only: the warden runs this too.
"""

# pathlib has no operations relative to an open folder.
# ruff: noqa: PTH101, PTH106, PTH208

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

_BLOCK_BYTES: Final = 512


def usage(folder: str, max_entries: int) -> tuple[int, int]:
    """Return (entries, bytes on disk) below *folder*; counting ends above *max_entries*.

    A folder that cannot be listed, since its path is too long, counts as too many entries.
    """
    entries = size = 0
    pending = [folder]
    while pending:
        try:
            with _listing(pending.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > max_entries:
                        return entries, size
                    status = _status(entry)
                    if status is None:
                        continue
                    size += status.st_blocks * _BLOCK_BYTES
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):  # removed or replaced meanwhile
            continue
        except OSError:
            return max_entries + 1, size
    return entries, size


def _listing(path: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
    try:
        return os.scandir(path)
    except PermissionError:
        os.chmod(path, 0o700)
        return os.scandir(path)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def remove(folder: str) -> None:
    """Remove *folder* and all below it, when nothing writes there any more. Idempotent."""
    try:
        os.chmod(folder, 0o700)
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        prefix = secrets.token_hex(8)
        raised = 0
        while names := os.listdir(top):
            for name in names:
                if _is_folder(name, top):
                    raised = _remove_level(name, top, prefix, raised)
                else:
                    os.unlink(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _remove_level(name: str, top: int, prefix: str, raised: int) -> int:
    """Remove the folder *name*, its own subfolders first raised into *top*; return their count."""
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for inner in os.listdir(here):
            if _is_folder(inner, here):
                raised += 1
                os.rename(inner, f"{prefix}-{raised}", src_dir_fd=here, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)
    return raised


def _is_folder(name: str, parent: int) -> bool:
    """Tell whether *name* is a folder, and if so make it one that can be listed and moved."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, 0o700, dir_fd=parent)
    return True
