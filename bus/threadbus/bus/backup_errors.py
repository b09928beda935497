"""What can go wrong with a backup.

BusError
└── BackupError                     a backup could not be made, checked or restored
    ├── BackupFolderError           the folder cannot be written, or is there already
    ├── BackupIncompleteError       the folder holds no whole backup
    ├── BackupDamagedError          a file is not as it was written
    ├── BackupStreamError           the server did not give, or did not take, a stream
    └── RestoreRefusedError         there is something in a stream that would be overwritten
"""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.bus.errors import BusError
from threadbus.schemas import shorten


class BackupError(BusError):
    """A backup could not be made, checked or restored."""


class BackupFolderError(BackupError):
    """The folder cannot be written, or is there already."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"backup folder {self.folder}: {shorten(self.reason, 400)}"


class BackupIncompleteError(BackupError):
    """The folder holds no whole backup."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.folder} is no whole backup: {shorten(self.reason, 400)}"


class BackupDamagedError(BackupError):
    """A file is not as it was written; nothing was restored."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file} was changed or cut ({self.reason}); nothing was restored from it"


class BackupStreamError(BackupError):
    """The server did not give, or did not take, a stream."""

    def __init__(self, stream: str, reason: str) -> None:
        super().__init__(stream, reason)
        self.stream = stream
        self.reason = reason

    def __str__(self) -> str:
        return f"stream {self.stream}: {shorten(self.reason, 400)}"


class RestoreRefusedError(BackupError):
    """There is something in a stream that would be overwritten; nothing was changed."""

    def __init__(self, streams: Sequence[str]) -> None:
        super().__init__(tuple(streams))
        self.streams = tuple(streams)

    def __str__(self) -> str:
        return (
            f"{', '.join(self.streams)} hold messages already, and a restore overwrites nothing; "
            "restore into a server, or a tenant, in which nothing was said yet"
        )
