"""Make the streams of a backup on a server that has none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.api import api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.plain import open_client
from threadbus.bus._nats.snapshots import (
    StoredStream,
    list_streams,
    remove_streams,
    write_snapshot,
)
from threadbus.bus.backup.folder import (
    DATA,
    BackedUp,
    Manifest,
    check,
    read_chunks,
    read_stream,
)
from threadbus.bus.backup_errors import BackupError, BackupStreamError, RestoreRefusedError
from threadbus.bus.settings import BusSettings

_MARK: Final = "threadbus_restoring"
"""In the metadata of the first stream that is restored, until the last one is there."""


async def restore(
    settings: BusSettings,
    folder: Path,
    *,
    on_stream: Callable[[BackedUp], None] | None = None,
) -> Manifest:
    """Make every stream of a backup, with the same sequences, times and bytes.

    What one that was killed has made is taken away first, unless something was said in it since.

    Mentions that nobody had taken are delivered; of the last minute before the backup also those
    that were, which agents notice and do not answer twice.

    Args:
        settings: where, the operator's key, and in ``replicas`` how many servers keep each stream.
        folder: the backup; it is checked first.
        on_stream: called with each stream when it is there.

    Returns:
        What was restored.

    Raises:
        ConnectError: no server can be reached, or it does not let this key in.
        BackupIncompleteError, BackupDamagedError, BackupFolderError: the backup cannot be used.
        RestoreRefusedError: the server holds something already; nothing was changed.
        BackupStreamError: the server did not take a stream; those before it are taken away again.

    Cancellation: takes away what it made.
    """
    manifest = await asyncio.to_thread(check, folder)
    made: list[str] = []
    async with open_client(settings, "operator") as client:
        try:
            await _make_room(client, manifest)
            # Logs first, so that what is filled from them finds them.
            for stream in reversed(manifest.streams):
                stored = _adapted(read_stream(folder, stream.name), stream, settings.replicas)
                if not made:
                    stored = _marked(stored)
                made.append(stream.name)
                await write_snapshot(client, stored, read_chunks(folder / stream.name / DATA))
                if on_stream is not None:
                    on_stream(stream)
            await _take_mark(client, made)
        except (NatsError, TimeoutError) as error:
            await _take_back(client, made)
            where = made[-1] if made else "the streams"
            raise BackupStreamError(where, str(error) or "no answer in time") from error
        except (BackupError, asyncio.CancelledError):
            await _take_back(client, made)
            raise
    return manifest


async def _make_room(client: DirectClient, manifest: Manifest) -> None:
    """Take away streams in which nothing ever was, as any command of an operator makes them.

    And those that a restore made which was killed before it was whole.
    """
    there = await list_streams(client)
    ours = {stream.name: stream.last_seq for stream in manifest.streams}
    is_half = any(_MARK in _metadata(stream) for stream in there)
    used = [
        stream.name
        for stream in there
        if stream.last_seq > (ours.get(stream.name, 0) if is_half else 0)
    ]
    if used:
        raise RestoreRefusedError(used)
    await remove_streams(client, [stream.name for stream in there])


def _metadata(stream: StoredStream) -> dict[str, str]:
    return msgspec.convert(stream.config.get("metadata") or {}, dict[str, str])


def _marked(stream: StoredStream) -> StoredStream:
    metadata = {**_metadata(stream), _MARK: "1"}
    return msgspec.structs.replace(stream, config={**stream.config, "metadata": metadata})


async def _take_mark(client: DirectClient, made: Sequence[str]) -> None:
    """Say that it is whole."""
    for stream in await list_streams(client):
        if stream.name in made and _MARK in _metadata(stream):
            metadata = {name: value for name, value in _metadata(stream).items() if name != _MARK}
            config = {**stream.config, "metadata": metadata}
            answer = await api(client, f"STREAM.UPDATE.{stream.name}", config)
            if answer.error is not None:
                raise BackupStreamError(stream.name, answer.error.description)


async def _take_back(client: DirectClient, made: list[str]) -> None:
    with contextlib.suppress(NatsError, TimeoutError, BackupStreamError):
        await remove_streams(client, reversed(made))


def _adapted(stored: StoredStream, stream: BackedUp, copies: int) -> StoredStream:
    """Return a stream as it is to be here: its copies, and from where it is filled."""
    config: dict[str, Any] = {**stored.config, "num_replicas": copies}
    if stored.sources:
        config["sources"] = [
            {**source, "opt_start_seq": stream.resume.get(source["name"], 1)}
            for source in stored.config["sources"]
        ]
    # It was said where the server was; here may be another cluster.
    config.pop("placement", None)
    return msgspec.structs.replace(stored, config=config)
