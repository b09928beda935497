"""The folder of a backup.

manifest.json              what there is, with a checksum of each file; written last
BUS/backup.json            the configuration and the state of a stream, as the server gave them
BUS/stream.tar.s2          its snapshot: an archive that nats-server makes and takes
MENTIONS/…                 and so on for each stream

Each folder of a stream is what ``nats stream backup`` writes, so ``nats stream restore`` takes it.
While a backup is made its folder is called ``NAME.partial``: one that was interrupted is never
taken for a whole one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from threadbus.bus._nats.snapshots import CHUNK_BYTES, StoredStream
from threadbus.bus.backup_errors import (
    BackupDamagedError,
    BackupFolderError,
    BackupIncompleteError,
)

BACKUP_FORMAT: Final = "threadbus.backup/1"
"""What the manifest says; the number rises when a reader has to know of a change."""

MANIFEST: Final = "manifest.json"
CONFIG: Final = "backup.json"
DATA: Final = "stream.tar.s2"
PARTIAL: Final = ".partial"
_MAX_JSON_BYTES: Final = 64 * 1024 * 1024


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """One stream in a backup."""

    name: Annotated[str, _about("the stream")]
    messages: Annotated[int, _about("messages that it holds")]
    last_seq: Annotated[int, _about("its last sequence")]
    bytes: Annotated[int, _about("bytes of its snapshot")]
    sha256: Annotated[str, _about("of its snapshot")]
    config_sha256: Annotated[str, _about("of its configuration")]
    resume: Annotated[
        dict[str, int], _about("where it goes on in each stream that it is filled from")
    ] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    format: Annotated[str, _about("threadbus.backup/1")] = BACKUP_FORMAT
    made_at: Annotated[str, _about("when it was begun, in UTC")]
    server: Annotated[str, _about("version of the nats-server that it came from")] = ""
    streams: Annotated[
        tuple[BackedUp, ...], _about("in the order in which they were backed up")
    ] = ()


def read_manifest(folder: Path) -> Manifest:
    """Return what a backup says that it holds.

    Raises:
        BackupIncompleteError: it is none, or one of a later form.
        BackupFolderError: it cannot be read.
    """
    try:
        with (folder / MANIFEST).open("rb") as file:
            found = msgspec.json.decode(file.read(_MAX_JSON_BYTES), type=Manifest)
    except FileNotFoundError:
        raise BackupIncompleteError(str(folder), f"it has no {MANIFEST}") from None
    except OSError as error:
        raise BackupFolderError(str(folder), error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise BackupIncompleteError(str(folder), f"{MANIFEST}: {error}") from error
    if found.format != BACKUP_FORMAT:
        raise BackupIncompleteError(
            str(folder), f"it has the form {found.format!r}, and this release reads {BACKUP_FORMAT}"
        )
    for stream in found.streams:
        if not stream.name or "/" in stream.name or stream.name.startswith("."):
            raise BackupIncompleteError(str(folder), f"{stream.name!r} is no name of a stream")
    return found


def check(folder: Path) -> Manifest:
    """Read every file of a backup and compare it with its checksum.

    Returns:
        What the backup holds.

    Raises:
        BackupIncompleteError: it is no whole backup.
        BackupDamagedError: a file was changed, cut, or is gone.
        BackupFolderError: it cannot be read.
    """
    manifest = read_manifest(folder)
    for stream in manifest.streams:
        for name, expected in ((CONFIG, stream.config_sha256), (DATA, stream.sha256)):
            path = folder / stream.name / name
            digest, size = hashlib.sha256(), 0
            for chunk in read_chunks(path):
                digest.update(chunk)
                size += len(chunk)
            if name == DATA and size != stream.bytes:
                raise BackupDamagedError(str(path), f"{size:,} bytes instead of {stream.bytes:,}")
            if digest.hexdigest() != expected:
                raise BackupDamagedError(str(path), "its SHA-256 is another one")
    return manifest


def read_chunks(path: Path) -> Generator[bytes]:
    """Give a file in pieces that fit into messages.

    Raises:
        BackupDamagedError: it is gone.
        BackupFolderError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except FileNotFoundError:
        raise BackupDamagedError(str(path), "it is gone") from None
    except OSError as error:
        raise BackupFolderError(str(path), error.strerror or str(error)) from error


def read_stream(folder: Path, name: str) -> StoredStream:
    """Return the configuration and the state of a stream in a backup.

    Raises:
        BackupDamagedError: it is not there, or no JSON.
    """
    path = folder / name / CONFIG
    try:
        return msgspec.json.decode(b"".join(read_chunks(path)), type=StoredStream)
    except msgspec.DecodeError as error:
        raise BackupDamagedError(str(path), str(error)) from error


def write_durable(path: Path, content: bytes) -> None:
    """Write a file and have it on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
