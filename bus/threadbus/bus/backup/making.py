"""Make a backup while everything goes on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.plain import open_client
from threadbus.bus._nats.snapshots import (
    StoredStream,
    list_streams,
    read_snapshot,
    resume_points,
)
from threadbus.bus.backup.folder import (
    CONFIG,
    DATA,
    MANIFEST,
    PARTIAL,
    BackedUp,
    Manifest,
    write_durable,
)
from threadbus.bus.backup_errors import BackupFolderError, BackupStreamError
from threadbus.bus.settings import BusSettings

DEFAULT_OVERLAP: Final = timedelta(seconds=60)
"""So much of the log is delivered a second time after a restore, so that nothing is left out."""


async def backup(
    settings: BusSettings,
    folder: Path,
    *,
    overlap: timedelta = DEFAULT_OVERLAP,
    on_stream: Callable[[BackedUp], None] | None = None,
) -> Manifest:
    """Write everything that is stored into a new folder; agents go on meanwhile.

    Heartbeats are left out. Memory is bounded by a few megabytes, whatever the log holds.

    Args:
        settings: where, and the operator's key.
        folder: is made; it is there as a whole or not at all.
        overlap: mentions of so long before now are delivered again after a restore.
        on_stream: called with each stream when it is done.

    Returns:
        What the backup holds.

    Raises:
        ConnectError: no server can be reached, or it does not let this key in.
        BackupFolderError: the folder is there already, or cannot be written.
        BackupStreamError: there is nothing to back up, or the server did not give it.

    Cancellation: leaves ``FOLDER.partial``, which the next backup of that name replaces.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    _begin(folder, partial)
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    done: list[BackedUp] = []
    streams: list[StoredStream] = []
    async with open_client(settings, "operator") as client:
        try:
            streams = await list_streams(client)
            if not streams:
                raise BackupStreamError("BUS", "there is none, so nothing to back up")
            for stream in streams:
                resume = await resume_points(client, stream, overlap)
                backed_up = await _one(client, stream.name, resume, partial)
                done.append(backed_up)
                if on_stream is not None:
                    on_stream(backed_up)
        except (NatsError, TimeoutError) as error:
            where = streams[len(done)].name if streams else "the streams"
            raise BackupStreamError(where, str(error) or "no answer in time") from error
        except OSError as error:
            raise BackupFolderError(str(partial), error.strerror or str(error)) from error
        manifest = Manifest(made_at=made_at, server=client.server_version, streams=tuple(done))
    _finish(folder, partial, manifest)
    return manifest


def _begin(folder: Path, partial: Path) -> None:
    try:
        if folder.exists():
            raise BackupFolderError(str(folder), "it is there already; choose another name")
        if partial.exists():
            # Only what an earlier backup can have left there is taken away.
            for path in partial.iterdir():
                if path.name == MANIFEST:
                    continue
                if {p.name for p in path.iterdir()} - {CONFIG, DATA}:
                    raise BackupFolderError(str(partial), "it is not a backup that was interrupted")
            shutil.rmtree(partial)
        partial.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise BackupFolderError(str(partial), error.strerror or str(error)) from error


def _finish(folder: Path, partial: Path, manifest: Manifest) -> None:
    try:
        text = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
        write_durable(partial / MANIFEST, text)
        partial.rename(folder)
    except OSError as error:
        raise BackupFolderError(str(folder), error.strerror or str(error)) from error
    directory = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


async def _one(client: DirectClient, name: str, resume: dict[str, int], partial: Path) -> BackedUp:
    """Write one stream."""
    folder = partial / name
    folder.mkdir(mode=0o700)
    digest, size = hashlib.sha256(), 0
    into: list[StoredStream] = []
    with (folder / DATA).open("xb") as file:
        async with aclosing(read_snapshot(client, name, into)) as chunks:
            async for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    (stream,) = into
    config = msgspec.json.encode(stream)
    write_durable(folder / CONFIG, config)
    return BackedUp(
        name=name,
        messages=int(stream.state.get("messages", 0)),
        last_seq=stream.last_seq,
        bytes=size,
        sha256=digest.hexdigest(),
        config_sha256=hashlib.sha256(config).hexdigest(),
        resume=resume,
    )
