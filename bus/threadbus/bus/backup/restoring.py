"""Make the streams of a backup on a server that has none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from nats.errors import Error as NatsError

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


async def restore(
    settings: BusSettings,
    folder: Path,
    *,
    on_stream: Callable[[BackedUp], None] | None = None,
) -> Manifest:
    """Make every stream of a backup, with the same sequences, times and bytes.

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
            await _make_room(client)
            # Logs first, so that what is filled from them finds them.
            for stream in reversed(manifest.streams):
                made.append(stream.name)
                stored = _adapted(read_stream(folder, stream.name), stream, settings.replicas)
                await write_snapshot(client, stored, read_chunks(folder / stream.name / DATA))
                if on_stream is not None:
                    on_stream(stream)
        except (NatsError, TimeoutError) as error:
            await _take_back(client, made)
            where = made[-1] if made else "the streams"
            raise BackupStreamError(where, str(error) or "no answer in time") from error
        except (BackupError, asyncio.CancelledError):
            await _take_back(client, made)
            raise
    return manifest


async def _make_room(client: DirectClient) -> None:
    """Take away streams in which nothing ever was, as any command of an operator makes them."""
    there = await list_streams(client)
    if used := [stream.name for stream in there if stream.last_seq]:
        raise RestoreRefusedError(used)
    await remove_streams(client, [stream.name for stream in there])


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
