"""How the files of an access folder change: one command at a time, and never half.

A change leaves, in this order: the mark ``.changing``, a new key beside its place, ``access.json``,
which is what counts from then on, ``accounts.conf``, the key in its place, and no mark. Who finds
the mark was preceded by a command that was killed, and finishes its work or takes it back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from threadbus.bus.access.keys import write_key
from threadbus.bus.access_errors import AccessFolderError
from threadbus.bus.server.files import write_private

_OTHERS: Final = 0o077
_NEW: Final = ".new"


class NewKey(NamedTuple):
    """A key that is not in its place yet."""

    place: Path
    public_key: str
    content: bytes

    @property
    def beside(self) -> Path:
        """Where it is until then; the name tells whose it is without a look at the secret."""
        return self.place.with_name(f"{self.place.name}.{self.public_key}{_NEW}")


class AccessFiles:
    """The files in one access folder; constructing it touches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "access.json"
        self.config = folder / "accounts.conf"
        self._mark = folder / ".changing"

    @property
    def is_interrupted(self) -> bool:
        """Whether a command was killed in the middle of a change."""
        return self._mark.exists()

    @contextmanager
    def locked(self) -> Generator[None]:
        """Let one command at a time change the folder.

        Raises:
            AccessFolderError: it is not there, not ours, open to others, or being changed.
        """
        self._check()
        try:
            fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AccessFolderError(str(self.folder), error.strerror or str(error)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise AccessFolderError(
                str(self.folder), "another command changes it just now; try again"
            ) from None
        finally:
            os.close(fd)

    def _check(self) -> None:
        """Refuse a folder that others could change, or in which our files would be no use."""
        try:
            status = self.folder.stat()
        except FileNotFoundError:
            raise AccessFolderError(
                str(self.folder), "no such folder; make it with `bus auth init`"
            ) from None
        except OSError as error:
            raise AccessFolderError(str(self.folder), error.strerror or str(error)) from error
        if status.st_uid != os.geteuid():
            raise AccessFolderError(
                str(self.folder),
                f"it belongs to the user {status.st_uid} and you are {os.geteuid()}, whose files "
                "its server could not read: run the command as that user",
            )
        if status.st_mode & _OTHERS:
            raise AccessFolderError(
                str(self.folder),
                f"others may use it (mode {status.st_mode & 0o777:04o}): `chmod 700` it, or choose "
                "another folder",
            )

    def commit(self, state: bytes, config: bytes, new: NewKey | None, gone: Path | None) -> None:
        """Make a change. It is whole once ``access.json`` is written, whatever comes after."""
        try:
            fd = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as mark:
                mark.write("" if gone is None else str(gone.relative_to(self.folder)))
            if new is not None:
                write_key(new.beside, new.content)
            write_private(self.state, state)
            write_private(self.config, config)
            if new is not None:
                new.beside.replace(new.place)
            if gone is not None:
                gone.unlink(missing_ok=True)
            self._mark.unlink()
        except OSError as error:
            raise AccessFolderError(str(self.folder), error.strerror or str(error)) from error

    def finish(self, config: bytes | None, keys: Mapping[str, Path]) -> None:
        """End what a killed command began.

        Args:
            config: as the identities say; None where there are none yet.
            keys: where the key of each identity belongs, by its public key.
        """
        try:
            if config is not None:
                write_private(self.config, config)
            for path in self.folder.glob(f"keys/*/*{_NEW}"):
                place, _, public_key = path.name.removesuffix(_NEW).rpartition(".")
                if public_key in keys:
                    path.replace(path.with_name(place))
                else:
                    path.unlink()
            gone = self._mark.read_text(encoding="utf-8")
            if gone and self.folder / gone not in keys.values():
                (self.folder / gone).unlink(missing_ok=True)
            # What was being written, keys among them.
            for pattern in ("keys/*/.*", "signing/keys/.*", ".access.json.*", ".accounts.conf.*"):
                for path in self.folder.glob(pattern):
                    path.unlink()
            self._mark.unlink(missing_ok=True)
        except OSError as error:
            raise AccessFolderError(str(self.folder), error.strerror or str(error)) from error
