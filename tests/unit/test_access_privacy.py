"""Which files with secrets are for nobody else, by their mode and by their access control list."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from threadbus.bus import access

_LIST = "system.posix_acl_access"
_NOBODY = 0xFFFFFFFF


def _list(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def _may_others_use(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return access.others_may_use(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("mode", "open_"), [(0o600, False), (0o400, False), (0o440, True), (0o604, True)]
)
def test_a_mode_says_whom_a_file_is_for(tmp_path: Path, mode: int, open_: bool) -> None:
    """Group and others may not do anything with it."""
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    assert _may_others_use(path) is open_


@pytest.mark.skipif(sys.platform != "linux", reason="lists are those of Linux")
@pytest.mark.parametrize(
    ("who", "group", "open_"),
    [("us", 0, False), ("somebody", 0, True), ("us", 4, True)],
    ids=["systemd", "another-user", "a-group"],
)
def test_a_list_says_more_than_the_mode(tmp_path: Path, who: str, group: int, open_: bool) -> None:
    """A credential as systemd hands it to a service is readable by root and by us: mode 0440."""
    path = tmp_path / "key"
    path.touch()
    user = os.geteuid() + (0 if who == "us" else 1)
    entries = _list(
        (0x01, 4, _NOBODY), (0x02, 4, user), (0x04, group, _NOBODY), (0x10, 4, _NOBODY),
        (0x20, 0, _NOBODY),
    )  # fmt: skip
    try:
        os.setxattr(path, _LIST, entries)
    except OSError as error:
        pytest.skip(f"this file system has no lists: {error}")
    assert path.stat().st_mode & 0o777 == 0o440
    assert _may_others_use(path) is open_
