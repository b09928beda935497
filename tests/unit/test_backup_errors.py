"""The errors of backups, and what a folder must be to count as one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from threadbus.bus import backup
from threadbus.bus.backup_errors import (
    BackupDamagedError,
    BackupError,
    BackupFolderError,
    BackupIncompleteError,
    BackupStreamError,
    RestoreRefusedError,
)
from threadbus.bus.errors import BusError


@pytest.mark.parametrize(
    "error",
    [
        BackupFolderError("saved", "it is there already"),
        BackupIncompleteError("saved", "no manifest"),
        BackupDamagedError("saved/BUS/stream.tar.s2", "it is gone"),
        BackupStreamError("BUS", "no room"),
        RestoreRefusedError(["BUS", "MENTIONS"]),
    ],
)
def test_errors_pickle_and_say_what_they_know(error: BackupError) -> None:
    """Each is a BusError, survives pickling and shows its attributes."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert isinstance(again, BusError)
    assert str(again) == str(error)
    for argument in error.args:
        shown = [argument] if isinstance(argument, str) else list(argument)
        assert all(text in str(error) for text in shown)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("", "manifest.json"),
        ('{"format":"threadbus.backup/9","made_at":"x"}', "threadbus.backup/9"),
        ('{"format":"threadbus.backup/1"}', "made_at"),
        (
            '{"made_at":"x","streams":[{"name":"../x","messages":0,"last_seq":0,"bytes":0,'
            '"sha256":"","config_sha256":""}]}',
            "no name of a stream",
        ),
    ],
)
def test_what_is_no_backup_is_told(tmp_path: Path, manifest: str, said: str) -> None:
    """Cut, of a later form, without what must be there, or leading out of the folder."""
    (tmp_path / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(BackupIncompleteError, match=said):
        backup.check(tmp_path)
