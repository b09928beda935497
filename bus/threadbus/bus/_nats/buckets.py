"""Key-value buckets and the object store on JetStream, as the nats tools lay them out."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from threadbus.bus._nats.api import api
from threadbus.bus._nats.client import DirectClient, Reply
from threadbus.bus._nats.direct import direct_get, is_relayed, read_batches, stored_message
from threadbus.bus._nats.frames import header, status
from threadbus.bus._nats.log import NatsLog
from threadbus.bus._nats.streams import ARTIFACTS_BUCKET
from threadbus.bus.errors import AppendError, ReadTimeoutError
from threadbus.bus.ports import Guard, KeyEntry
from threadbus.bus.store_errors import ArtifactTooLargeError
from threadbus.schemas import new_event_id

_TIMEOUT: Final = timedelta(seconds=10)
_GONE: Final = (b"DEL", b"PURGE")
_BATCH: Final = 1000
_CHUNK_BYTES: Final = 128 * 1024
_HEADER_ROOM: Final = 512
_PUT_TIMEOUT: Final = timedelta(seconds=30)
_METAS: Final = 64
_GET_S: Final = 10.0
_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
_LOOK_AGAIN_S: Final = (0.05, 0.5, 5.0)
"""After a change was heard of: a cluster may take so long to store what it passes on at once."""


class _Watch:
    """One who is told that a key may have changed, and looks itself."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self._timers: list[asyncio.TimerHandle] = []

    def tell(self) -> None:
        """Have it look now, and again when what was passed on is stored by all means."""
        self.stop()
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(seconds, self.look) for seconds in _LOOK_AGAIN_S]
        self.look()

    def stop(self) -> None:
        """Have it look no more."""
        for timer in self._timers:
            timer.cancel()


class NatsBucket:
    """One key-value bucket."""

    def __init__(self, client: DirectClient, log: NatsLog, bucket: str) -> None:
        self._client = client
        self._log = log
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._watches: set[_Watch] = set()

    async def get(self, key: str) -> KeyEntry | None:
        """Return the value of *key*."""
        subject = self._prefix + key
        try:
            reply = await self._ask(f"$JS.API.DIRECT.GET.{self._stream}.{subject}")
        except (NatsError, TimeoutError) as error:
            raise ReadTimeoutError(subject, str(error) or "no answer in time") from error
        if status(reply.raw) or _is_gone(reply.raw) or is_relayed(reply.raw):
            return None
        return KeyEntry(key, reply.body, int(header(reply.raw, b"Nats-Sequence") or 0))

    async def _ask(self, subject: str) -> Reply:
        for pause in _PAUSES_S:
            with contextlib.suppress(NoRespondersError):
                return await self._client.ask(subject, b"", timeout_s=_GET_S)
            # A server that has just started does not have the stream yet.
            await asyncio.sleep(pause)
        return await self._client.ask(subject, b"", timeout_s=_GET_S)

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
        value, last = (await self._log_entries(key)).get(key, (b"", 0))
        return last if value is None else 0

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
        # Where the prefix ends a token the server can leave out the rest.
        found = await self._log_entries(f"{prefix}>" if prefix.endswith(".") else ">")
        return [
            KeyEntry(key, value, revision)
            for key, (value, revision) in found.items()
            if value is not None and key.startswith(prefix)
        ]

    async def _log_entries(self, pattern: str) -> dict[str, tuple[bytes | None, int]]:
        """Read the last message of each key: all that a bucket keeps.

        In batches: asked for the last ones by key a server answers only for some 1000.
        """
        found: dict[str, tuple[bytes | None, int]] = {}
        after = 0
        while True:
            request = {
                "seq": after + 1,
                "batch": _BATCH,
                "next_by_subj": self._prefix + pattern,
            }
            frames = await direct_get(self._client, self._stream, request)
            for body, raw in frames:
                message = stored_message(body, raw)
                if message is not None:
                    after = message.seq
                    # A key that was set meanwhile comes again later, and that counts.
                    value = None if _is_gone(raw) or message.relayed else body
                    found[message.subject.removeprefix(self._prefix)] = (value, message.seq)
            if len(frames) < _BATCH:
                return found

    @asynccontextmanager
    async def watch(self, key: str, handler: Callable[[], None]) -> AsyncGenerator[None]:
        """Call *handler* when *key* may have changed.

        A plain subscription also sees what the server then refuses, and what it has yet to store,
        so the handler must look and is called more than once for one change. It is called after
        each reconnection too: what was sent meanwhile came to nobody here.
        """
        watch = _Watch(handler)

        def on_frame(_subject: bytes, _reply: bytes, _body: bytes, _raw: bytes) -> None:
            watch.tell()

        self._watches.add(watch)
        try:
            async with self._client.listen(self._prefix + key, on_frame, settled=True):
                yield
        finally:
            self._watches.discard(watch)
            watch.stop()

    def on_reconnected(self) -> None:
        """Have everybody who watches look."""
        for watch in self._watches:
            watch.tell()


def _is_gone(raw: bytes) -> bool:
    return header(raw, b"KV-Operation") in _GONE or header(raw, b"Nats-Marker-Reason") is not None


class _ObjectInfo(msgspec.Struct, omit_defaults=True):
    """What the object store keeps of an object, as the nats tools write it."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    mtime: str = ""
    digest: str = ""
    options: dict[str, int] = {}
    deleted: bool = False


class NatsObjects:
    """The object store: chunks of a content under its name."""

    def __init__(self, client: DirectClient, log: NatsLog) -> None:
        self._client = client
        self._log = log
        self._stream = f"OBJ_{ARTIFACTS_BUCKET}"

    async def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        return await self._info(name) is not None

    async def put(self, name: str, content: bytes) -> None:
        """Store an object: its chunks, then what names them. What fails leaves no object."""
        nuid = new_event_id()
        chunks = f"$O.{ARTIFACTS_BUCKET}.C.{nuid}"
        size = min(_CHUNK_BYTES, self._client.max_payload - _HEADER_ROOM)
        starts = range(0, len(content), size)
        info = _ObjectInfo(
            name=name,
            bucket=ARTIFACTS_BUCKET,
            nuid=nuid,
            size=len(content),
            chunks=len(starts),
            mtime=datetime.now(UTC).isoformat(),
            digest="SHA-256=" + urlsafe_b64encode(sha256(content).digest()).decode(),
            options={"max_chunk_size": size},
        )
        try:
            for start in starts:
                # One after the other: a chunk that is sent again must not come after the next.
                await self._append(chunks, content[start : start + size])
            # No roll-up: who may send that could empty the whole store with one message.
            await self._append(_meta_subject(name), msgspec.json.encode(info))
        except AppendError:
            # An agent may not purge; what is left of it is found by nobody.
            with contextlib.suppress(NatsError, TimeoutError, AppendError):
                await api(self._client, f"STREAM.PURGE.{self._stream}", {"filter": chunks})
            raise

    async def _append(self, subject: str, body: bytes) -> None:
        sent = await self._log.append(
            subject,
            body,
            msg_id=new_event_id(),
            guard=None,
            headers={},
            timeout=_PUT_TIMEOUT,
        )
        await sent

    async def _info(self, name: str) -> _ObjectInfo | None:
        # The first counts: a content never changes, so nobody has to say it anew.
        request = {"seq": 1, "next_by_subj": _meta_subject(name), "batch": _METAS}
        for body, _ in await direct_get(self._client, self._stream, request):
            with contextlib.suppress(msgspec.DecodeError):
                info = msgspec.json.decode(body, type=_ObjectInfo)
                if not info.deleted:
                    return info
        # What somebody else wrote is as if it was not there: it can be put again.
        return None

    async def get(self, name: str, limit: int) -> bytes | None:
        """Return an object of at most *limit* bytes, or None where there is none."""
        info = await self._info(name)
        if info is None:
            return None
        if info.size > limit:
            raise ArtifactTooLargeError(info.size, limit)
        # What is missing ends the content early, and its hash then tells.
        content = bytearray()
        subject = f"$O.{ARTIFACTS_BUCKET}.C.{info.nuid}"
        chunks = read_batches(self._client, self._stream, subject, 0, info.size)
        async with aclosing(chunks) as batches:
            async for batch in batches:
                for message in batch:
                    content += message.body
                if len(content) > info.size:
                    break
        # What somebody put behind it later is not of it.
        return bytes(content[: info.size])


def _meta_subject(name: str) -> str:
    return f"$O.{ARTIFACTS_BUCKET}.M.{urlsafe_b64encode(name.encode()).decode()}"
