"""Key-value buckets and the object store on JetStream, as the nats tools lay them out."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ObjectMeta, ObjectStoreConfig, StorageType
from nats.js.errors import BucketNotFoundError, NotFoundError, ObjectNotFoundError
from nats.js.object_store import ObjectStore

from threadbus.bus._nats.client import DirectClient, header
from threadbus.bus._nats.direct import direct_get
from threadbus.bus._nats.log import NatsLog
from threadbus.bus._nats.streams import ARTIFACTS_BUCKET
from threadbus.bus.errors import (
    ReadError,
)
from threadbus.bus.ports import Guard, KeyEntry
from threadbus.bus.store_errors import (
    ArtifactTooLargeError,
)
from threadbus.schemas import new_event_id

_TIMEOUT: Final = timedelta(seconds=10)
_GONE: Final = (b"DEL", b"PURGE")
_MAX_KEYS: Final = 50_000
_CHUNKS: Final = 64


class NatsBucket:
    """One key-value bucket."""

    def __init__(self, client: DirectClient, log: NatsLog, bucket: str) -> None:
        self._client = client
        self._log = log
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def get(self, key: str) -> KeyEntry | None:
        """Return the value of *key*."""
        subject = self._prefix + key
        try:
            reply = await self._client.request(
                f"$JS.API.DIRECT.GET.{self._stream}.{subject}", b"", timeout=5
            )
        except (NatsError, TimeoutError) as error:
            raise ReadError(subject, str(error) or "no answer in time") from error
        headers = reply.headers or {}
        if headers.get("Status"):
            return None
        if headers.get("KV-Operation") or headers.get("Nats-Marker-Reason"):
            return None
        return KeyEntry(key, reply.data, int(headers["Nats-Sequence"]))

    async def put(
        self, key: str, value: bytes, *, revision: int | None = None, ttl: timedelta | None = None
    ) -> int:
        """Set *key* and return its revision (see :class:`KeyValuePort`)."""
        subject = self._prefix + key
        guard = None if revision is None else Guard(subject, await self._last(key, revision))
        headers = {} if ttl is None else {"Nats-TTL": f"{max(1, round(ttl.total_seconds()))}s"}
        sent = await self._log.append(
            subject, value, msg_id=new_event_id(), guard=guard, headers=headers, timeout=_TIMEOUT
        )
        return (await sent).seq

    async def _last(self, key: str, revision: int) -> int:
        """Return what the server compares with: a deleted key still has a last sequence."""
        if revision:
            return revision
        entries = await self._log_entries(key)
        return entries[0][2] if entries and entries[0][1] is None else 0

    async def delete(self, key: str) -> None:
        """Take *key* away."""
        sent = await self._log.append(
            self._prefix + key,
            b"",
            msg_id=new_event_id(),
            guard=None,
            headers={"KV-Operation": "DEL"},
            timeout=_TIMEOUT,
        )
        await sent

    async def entries(self, prefix: str = "") -> Sequence[KeyEntry]:
        """Return every key that starts with *prefix*."""
        found = await self._log_entries(">")
        return [
            KeyEntry(key, value, revision)
            for key, value, revision in found
            if value is not None and key.startswith(prefix)
        ]

    async def _log_entries(self, pattern: str) -> list[tuple[str, bytes | None, int]]:
        request = {"multi_last": [self._prefix + pattern], "batch": _MAX_KEYS}
        frames, _ = await direct_get(self._client, self._stream, request)
        return [
            (
                frame.subject.removeprefix(self._prefix),
                None if _is_gone(frame.raw) else frame.body,
                frame.seq,
            )
            for frame in frames
        ]

    @asynccontextmanager
    async def watch(self, key: str, handler: Callable[[], None]) -> AsyncGenerator[None]:
        """Call *handler* when *key* may have changed.

        A plain subscription also sees what the server then refuses, so the handler must look.
        """

        def on_frame(_subject: str, _reply: str, _body: bytes, _raw: bytes) -> None:
            handler()

        async with self._client.listen(self._prefix + key, on_frame):
            yield


def _is_gone(raw: bytes) -> bool:
    return header(raw, b"KV-Operation") in _GONE or header(raw, b"Nats-Marker-Reason") is not None


class NatsObjects:
    """The object store: chunks of a content under its name."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client
        self._js = JetStreamContext(client)
        self._store: ObjectStore | None = None

    async def ensure(self, replicas: int) -> None:
        """Create the bucket where it is missing."""
        try:
            self._store = await self._js.object_store(ARTIFACTS_BUCKET)
        except (BucketNotFoundError, NotFoundError):
            self._store = await self._js.create_object_store(  # pyright: ignore[reportUnknownMemberType]
                ARTIFACTS_BUCKET,
                ObjectStoreConfig(storage=StorageType.FILE, replicas=replicas),
            )

    async def _bucket(self) -> ObjectStore:
        if self._store is None:
            self._store = await self._js.object_store(ARTIFACTS_BUCKET)
        return self._store

    async def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        try:
            await (await self._bucket()).get_info(name)
        except (ObjectNotFoundError, NotFoundError, BucketNotFoundError):
            return False
        return True

    async def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        await (await self._bucket()).put(name, io.BytesIO(content), meta=ObjectMeta(name=name))

    async def get(self, name: str, limit: int) -> bytes | None:
        """Return an object of at most *limit* bytes, or None where there is none."""
        bucket = await self._bucket()
        try:
            info = await bucket.get_info(name)
        except (ObjectNotFoundError, NotFoundError, BucketNotFoundError):
            return None
        size = info.size or 0
        if size > limit:
            raise ArtifactTooLargeError(size, limit)
        # nats-py waits for ever where a chunk is missing; a direct get says what there is.
        content = bytearray()
        after = 0
        more = size > 0
        while more:
            request = {
                "seq": after + 1,
                "batch": _CHUNKS,
                "next_by_subj": f"$O.{ARTIFACTS_BUCKET}.C.{info.nuid}",
            }
            frames, more = await direct_get(self._client, f"OBJ_{ARTIFACTS_BUCKET}", request)
            if not frames:
                break
            after = frames[-1].seq
            for frame in frames:
                content += frame.body
            if len(content) > size:
                break
        return bytes(content)
