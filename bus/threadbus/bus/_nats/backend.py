"""A connection to a NATS server that fills every port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import structlog
from nats.errors import Error as NatsError
from nats.errors import NoServersError

from threadbus.bus._nats.buckets import NatsBucket, NatsObjects
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.inbox import NatsInboxes
from threadbus.bus._nats.log import NatsLog
from threadbus.bus._nats.streams import (
    AGENTS_BUCKET,
    ARTIFACTS_BUCKET,
    LOG_STREAM,
    PRESENCE_BUCKET,
    StreamSpec,
    check_server,
    ensure_stream,
    specs,
    stream_facts,
)
from threadbus.bus.errors import NoServerError, ReadError
from threadbus.bus.ports import DataHandler, ServerFacts, StorageFacts, StreamFacts
from threadbus.bus.settings import BusSettings

_RECONNECT_WAIT_S: Final = 0.1
_log: Any = structlog.get_logger("threadbus.bus")


class NatsLive:
    """Core NATS messages that nobody stores."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client

    async def publish(self, subject: str, body: bytes) -> None:
        """Send to whoever listens now; nothing while there is no connection."""
        if self._client.is_connected:
            with contextlib.suppress(NatsError):
                self._client.post(subject, body)
                await self._client.wait_for_socket()

    @asynccontextmanager
    async def subscribe(self, subject: str, handler: DataHandler) -> AsyncGenerator[None]:
        """Call *handler* with the subject and body of each message."""

        def on_frame(on: bytes, _reply: bytes, body: bytes, _raw: bytes) -> None:
            handler(on.decode("utf-8", "replace"), body)

        async with self._client.listen(subject, on_frame):
            yield


class NatsBackend:
    """Everything behind one connection; made by :func:`open_backend`."""

    def __init__(self, client: DirectClient, settings: BusSettings) -> None:
        self._client = client
        self._settings = settings
        self.log = NatsLog(client, LOG_STREAM, settings.pending_max)
        self.inboxes = NatsInboxes(client)
        self.agents = NatsBucket(client, self.log, AGENTS_BUCKET)
        self.presence = NatsBucket(client, self.log, PRESENCE_BUCKET)
        self.objects = NatsObjects(client, self.log)
        self.live = NatsLive(client)

    async def ensure(self) -> None:
        """Create what is missing, check what is there (see :mod:`._nats.streams`)."""
        for spec in specs(self._settings.replicas):
            await ensure_stream(self._client, spec)
        await self.log.look_at_leader()

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        await check_server(self._client, self._settings.url)
        return ServerFacts(
            version=self._client.server_version,
            url=self._settings.url,
            max_payload=self._client.max_payload,
            name=self._client.server_name,
        )

    async def storage(self) -> StorageFacts:
        """Return what is known of the streams; makes none.

        Raises:
            ReadError: the server refuses to tell, or does not answer.
        """
        wanted = (*specs(self._settings.replicas), StreamSpec(f"OBJ_{ARTIFACTS_BUCKET}", {}))
        clock = 0
        streams: list[StreamFacts] = []
        try:
            for spec in wanted:
                facts, now = await stream_facts(self._client, spec)
                clock = now or clock
                streams.append(facts)
        except (NatsError, TimeoutError) as error:
            raise ReadError("the streams", str(error) or "no answer in time") from error
        return StorageFacts(streams=tuple(streams), server_time=clock)

    async def drain(self, deadline: timedelta) -> None:
        """Wait for outstanding appends, at most until *deadline*."""
        await self.log.drain(deadline)


@asynccontextmanager
async def open_backend(settings: BusSettings, name: str) -> AsyncGenerator[NatsBackend]:
    """Connect, check the server, and close when the context ends.

    Raises:
        NoServerError, ServerTooOldError, JetStreamMissingError: see :mod:`threadbus.bus.errors`.
    """
    client = DirectClient()
    callbacks = _Callbacks(settings.url)
    # The wait is typed as whole seconds and works with fractions.
    options: dict[str, Any] = {"reconnect_time_wait": _RECONNECT_WAIT_S}
    if settings.credentials:
        options["user_credentials"] = settings.credentials
    if settings.nkey:
        options["nkeys_seed"] = settings.nkey
    try:
        async with asyncio.timeout(settings.connect_timeout.total_seconds()):
            await client.connect(
                settings.url,
                name=f"threadbus:{name}",
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                ping_interval=20,
                inbox_prefix=f"_INBOX_{name}".encode(),
                error_cb=callbacks.on_error,
                disconnected_cb=callbacks.on_disconnected,
                reconnected_cb=callbacks.on_reconnected,
                **options,
            )
    except (TimeoutError, NoServersError, NatsError, OSError, ValueError) as error:
        with contextlib.suppress(Exception):
            await client.close()
        reason = callbacks.last_error or str(error) or "no answer in time"
        raise NoServerError(settings.url, reason) from error
    try:
        client.start_answers()
        await check_server(client, settings.url)
        backend = NatsBackend(client, settings)
        async with backend.log.started():
            callbacks.backend = backend
            yield backend
    finally:
        callbacks.backend = None
        with contextlib.suppress(NatsError, TimeoutError):
            async with asyncio.timeout(2):
                await client.close()


class _Callbacks:
    """What nats-py tells, put where it belongs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.backend: NatsBackend | None = None
        self.last_error = ""

    async def on_error(self, error: Exception) -> None:
        text = str(error)
        if self.backend is None:
            self.last_error = text
            return
        if "permissions violation" in text.lower():
            self.backend.log.on_permission_error(text.lower())
        _log.warning("server error", url=self._url, error=text)

    async def on_disconnected(self) -> None:
        if self.backend is not None:
            _log.warning("connection lost, reconnecting", url=self._url)

    async def on_reconnected(self) -> None:
        if self.backend is not None:
            _log.info("connection is back", url=self._url)
            await self.backend.log.on_reconnected()
            self.backend.inboxes.on_reconnected()
