"""Snapshots of streams by the JetStream API: what `nats stream backup` and `restore` use too.

A snapshot is a compressed archive that the server makes of a stream. It comes in chunks, of which
the server sends no more than it has acknowledgements for, so neither side ever holds much of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from threadbus.bus._nats.api import ApiAnswer, api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import direct_get, stored_message
from threadbus.bus._nats.frames import description, status
from threadbus.bus._nats.layout import INBOX_STREAM, LOG_STREAM
from threadbus.bus._nats.streams import (
    AGENTS_BUCKET,
    ARTIFACTS_BUCKET,
    POSITIONS_BUCKET,
)
from threadbus.bus.backup_errors import BackupStreamError
from threadbus.schemas import new_event_id

CHUNK_BYTES: Final = 128 * 1024
_WINDOW_BYTES: Final = 4 * 1024 * 1024
_SILENCE_S: Final = 60.0
_END_S: Final = 600.0
"""The server puts the restored stream in order before it answers."""
_LAG_S: Final = 30.0
_PAUSE_S: Final = 0.1
_PAGES: Final = 1000
_END_OF_FILE: Final = 204
_DELIVER: Final = "backup"


class _Named(msgspec.Struct, frozen=True):
    name: str


class StoredStream(msgspec.Struct, frozen=True):
    """A stream as the server lists it; the configuration and the state as they came."""

    config: dict[str, Any]
    state: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.config["name"])

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams that it is filled from."""
        found = msgspec.convert(self.config.get("sources") or [], list[_Named])
        return tuple(dict.fromkeys(source.name for source in found))

    @property
    def last_seq(self) -> int:
        """The last sequence that it gave."""
        return int(self.state.get("last_seq", 0))


class _Page(msgspec.Struct, frozen=True):
    total: int = 0
    streams: tuple[StoredStream, ...] = ()


def is_kept(name: str) -> bool:
    """Whether a stream belongs into a backup: heartbeats, and what is somebody else's, do not."""
    base, _, number = name.rpartition("-")
    if base in {LOG_STREAM, INBOX_STREAM} and number.isdigit():
        return True
    return name in {
        LOG_STREAM,
        INBOX_STREAM,
        f"KV_{AGENTS_BUCKET}",
        f"KV_{POSITIONS_BUCKET}",
        f"OBJ_{ARTIFACTS_BUCKET}",
    }


async def list_streams(client: DirectClient) -> list[StoredStream]:
    """Return every stream of threadbus that there is, in the order in which they are backed up.

    What is derived from others comes first: a mention that is taken meanwhile is then in the log's
    backup together with what was answered, never the other way round. Positions come before the
    log for the same reason, and artifacts after it: an event is only ever stored after them.

    Raises:
        BackupStreamError: the server refuses.
        NatsError, TimeoutError: there was no answer.
    """
    found: dict[str, StoredStream] = {}
    offset = 0
    for _ in range(_PAGES):
        body = msgspec.json.encode({"offset": offset})
        answer = (await client.ask("$JS.API.STREAM.LIST", body, timeout_s=_SILENCE_S)).body
        refused = msgspec.json.decode(answer, type=ApiAnswer).error
        if refused is not None:
            raise BackupStreamError("list", refused.description)
        page = msgspec.json.decode(answer, type=_Page)
        found |= {stream.name: stream for stream in page.streams if is_kept(stream.name)}
        offset += len(page.streams)
        if not page.streams or offset >= page.total:
            break
    return sorted(found.values(), key=lambda stream: (_place(stream, found), stream.name))


def _place(stream: StoredStream, all_: dict[str, StoredStream], depth: int = 0) -> int:
    """Return where a stream stands: the longest way to what it is derived from, backwards."""
    if stream.sources:
        below = [all_[name] for name in stream.sources if name in all_ and depth < len(all_)]
        return min((_place(one, all_, depth + 1) for one in below), default=0) - 1
    if stream.name == f"KV_{POSITIONS_BUCKET}":
        return 0
    return 1 if stream.name.partition("-")[0] == LOG_STREAM else 2


async def read_snapshot(
    client: DirectClient, stream: str, into: list[StoredStream]
) -> AsyncGenerator[bytes]:
    """Give the chunks of a snapshot; what is in the stream then is put into *into* first.

    Raises:
        BackupStreamError: the server refuses, or ends it early.
        TimeoutError: nothing came for a minute.
        NatsError: it could not be asked, or the connection broke.
    """
    chunks: asyncio.Queue[tuple[bytes, bytes, bytes] | Exception] = asyncio.Queue()

    def on_chunk(_subject: bytes, reply: bytes, body: bytes, raw: bytes) -> None:
        chunks.put_nowait((reply, body, raw))

    request = {
        "chunk_size": min(CHUNK_BYTES, client.max_payload // 2),
        "window_size": _WINDOW_BYTES,
        # An inbox is made again by whoever it belongs to.
        "no_consumers": True,
        "jsck": True,
    }
    # A subject of its own: for interest in a pattern the server waits two seconds. Not of an inbox:
    # where streams are in an account of their own, only what is named there comes to its clients.
    deliver = f"{_DELIVER}.{new_event_id()}"
    body = msgspec.json.encode({**request, "deliver_subject": deliver})
    subject = f"$JS.API.STREAM.SNAPSHOT.{stream}"
    # Only so that the end of the connection is told: what was begun on it does not go on.
    lost = client.expect(subject, _ignore, chunks.put_nowait)
    try:
        async with client.listen(deliver, on_chunk, settled=True):
            answer = await client.ask(subject, body, timeout_s=_END_S)
            refused = msgspec.json.decode(answer.body, type=ApiAnswer).error
            if refused is not None:
                raise BackupStreamError(stream, refused.description)
            into.append(msgspec.json.decode(answer.body, type=StoredStream))
            while True:
                async with asyncio.timeout(_SILENCE_S):
                    chunk = await chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                reply, data, raw = chunk
                code = status(raw)
                if code not in {0, _END_OF_FILE}:
                    raise BackupStreamError(stream, f"the server ended it: {description(raw)}")
                if not data:
                    return
                yield data
                if reply:
                    client.post(reply.decode(), b"")
    finally:
        client.forget(lost)


def _ignore(_subject: bytes, _reply: bytes, _body: bytes, _raw: bytes) -> None:
    return


async def write_snapshot(
    client: DirectClient, stream: StoredStream, chunks: Iterable[bytes]
) -> None:
    """Make a stream of a snapshot. Nothing is there until all of it was taken.

    Raises:
        BackupStreamError: the server refuses.
        NatsError, TimeoutError: there was no answer.
    """
    subject = f"$JS.API.STREAM.RESTORE.{stream.name}"
    body = msgspec.json.encode({"config": stream.config, "state": stream.state})
    answer = await client.ask(subject, body, timeout_s=_SILENCE_S)
    _check(stream.name, answer.body)
    where = msgspec.json.decode(answer.body, type=_Restore).deliver_subject
    answers: asyncio.Queue[tuple[bytes, bytes] | Exception] = asyncio.Queue()

    def on_answer(_subject: bytes, _reply: bytes, body: bytes, raw: bytes) -> None:
        answers.put_nowait((body, raw))

    async def say(piece: bytes, patience_s: float) -> bytes:
        client.post(where, piece, reply=reply)
        async with asyncio.timeout(patience_s):
            answer = await answers.get()
        if isinstance(answer, Exception):
            raise answer
        body, raw = answer
        if status(raw):
            raise BackupStreamError(stream.name, "the server no longer takes it")
        _check(stream.name, body)
        return body

    # As for a snapshot: an answer to an inbox does not come where streams are apart.
    reply = f"{_DELIVER}.{new_event_id()}"
    lost = client.expect(subject, _ignore, answers.put_nowait)
    try:
        async with client.listen(reply, on_answer, settled=True):
            for chunk in chunks:
                await say(chunk, _SILENCE_S)
            if not await say(b"", _END_S):
                raise BackupStreamError(stream.name, "the server did not take it as a whole")
    finally:
        client.forget(lost)


class _Restore(msgspec.Struct, frozen=True):
    deliver_subject: str = ""


def _check(stream: str, body: bytes) -> None:
    refused = msgspec.json.decode(body, type=ApiAnswer).error if body else None
    if refused is not None:
        raise BackupStreamError(stream, refused.description)


async def resume_points(
    client: DirectClient, stream: StoredStream, overlap: timedelta
) -> dict[str, int]:
    """Return from where a derived stream has to be filled once it was restored from now on.

    The server knows a stream that was restored as another one, and begins anew where the source
    says: without a point to begin at, everything since the beginning of the log would be delivered
    once more. What has been taken over by now is found by waiting until nothing lags.

    Args:
        client: the connection.
        stream: the derived stream.
        overlap: so much of the log before now is delivered again, for safety.

    Returns:
        A sequence for each stream that it is filled from.

    Raises:
        NatsError, TimeoutError: there was no answer.
    """
    since = datetime.now(UTC) - overlap
    points: dict[str, int] = {}
    for source in stream.sources:
        info = await api(client, f"STREAM.INFO.{source}")
        request = {"start_time": since.isoformat(), "batch": 1, "next_by_subj": ">"}
        frames = await direct_get(client, source, request)
        found = [stored_message(body, raw) for body, raw in frames]
        first = next((message.seq for message in found if message is not None), None)
        after_last = info.state.last_seq + 1
        points[source] = after_last if first is None else min(first, after_last)
    deadline = time.monotonic() + _LAG_S
    while True:
        found_sources = (await api(client, f"STREAM.INFO.{stream.name}")).sources
        if not any(source.lag for source in found_sources):
            return points
        if time.monotonic() >= deadline:
            # Too busy to tell: everything is delivered again, and agents know what they answered.
            return dict.fromkeys(stream.sources, 1)
        await asyncio.sleep(_PAUSE_S)


async def remove_streams(client: DirectClient, names: Iterable[str]) -> None:
    """Take streams away; those that are not there are passed over.

    Raises:
        BackupStreamError: the server refuses.
        NatsError, TimeoutError: there was no answer.
    """
    for name in names:
        answer = await api(client, f"STREAM.DELETE.{name}")
        if answer.error is not None and answer.error.code != 404:
            raise BackupStreamError(name, answer.error.description)
