"""A connection to a NATS server that fills every port."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError, NoServersError, UnexpectedEOF

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.buckets import NatsBucket, NatsObjects
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.credentials import connect_options, is_refusal
from threadbus.bus._nats.health import drop_mentions, look_at_health
from threadbus.bus._nats.inbox import NatsInboxes
from threadbus.bus._nats.layout import Layout
from threadbus.bus._nats.log import NatsLog
from threadbus.bus._nats.plain import in_time
from threadbus.bus._nats.spreading import ensure_streams, find_layout
from threadbus.bus._nats.streams import (
    AGENTS_BUCKET,
    POSITIONS_BUCKET,
    PRESENCE_BUCKET,
    READY_S,
    RETRY_S,
    check_server,
    ensure_stream,
    positions_spec,
    specs,
    stream_facts,
)
from threadbus.bus._running import running
from threadbus.bus.errors import NoServerError, NotAdmittedError, ReadError
from threadbus.bus.facts import ServerFacts, StorageFacts, StreamFacts
from threadbus.bus.health import Health
from threadbus.bus.ports import DataHandler
from threadbus.bus.settings import BusSettings, shown_url

_RECONNECT_WAIT_S: Final = 0.1
_PING_S: Final = 5
_TELL_EVERY_S: Final = 10.0
_CLOSE_S: Final = 2
_STORED: Final = b"\r\nNats-Stream"
_SCHEMES: Final = frozenset({"nats", "tls"})


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

        def on_frame(on: bytes, _reply: bytes, body: bytes, raw: bytes) -> None:
            if _STORED in raw:
                # Somebody had the server answer here, where he may not publish himself.
                return
            handler(on.decode("utf-8", "replace"), body)

        async with self._client.listen(subject, on_frame, settled=True):
            yield


class NatsBackend:
    """Everything behind one connection; made by :func:`open_backend`."""

    def __init__(self, client: DirectClient, settings: BusSettings) -> None:
        self._client = client
        self._settings = settings
        self._url = shown_url(settings.url)
        self.log = NatsLog(client, settings.pending_max)
        self.inboxes = NatsInboxes(client, self.log)
        self.agents = NatsBucket(client, self.log, AGENTS_BUCKET)
        self.presence = NatsBucket(client, self.log, PRESENCE_BUCKET)
        self.objects = NatsObjects(client, self.log)
        self.live = NatsLive(client)
        self._layout: Layout | None = None

    async def ensure(self) -> None:
        """Create what is missing, check what is there (see :mod:`._nats.streams`)."""

        async def make() -> None:
            self._spread(await ensure_streams(self._client, self._settings))
            await self.log.look_at_leader()

        await self._until_ready(make)

    async def look(self) -> None:
        """Find out how the streams are spread, for whoever makes none."""

        async def find() -> None:
            self._spread(await find_layout(self._client))

        await self._until_ready(find)

    def _spread(self, layout: Layout | None) -> None:
        self._layout = layout
        if layout is not None:
            self.log.spread(layout)
            self.inboxes.spread(layout)

    async def _until_ready(self, act: Callable[[], Awaitable[None]]) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                await act()
            except MaxPayloadError as error:
                limit = f"its max_payload of {self._client.max_payload:,} bytes is too small"
                raise NoServerError(self._url, limit) from error
            except (NatsError, TimeoutError) as error:
                # Just started, or without a leader for a moment.
                if time.monotonic() > deadline:
                    reason = str(error) or "no answer in time"
                    raise NoServerError(self._url, f"JetStream is not ready: {reason}") from error
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def positions(self) -> NatsBucket:
        """Return where consumers of the whole log keep how far they got, made if need be.

        Raises:
            StreamMismatchError: the bucket is not as it must be.
            ReadError: the server did not answer.
        """
        try:
            await ensure_stream(self._client, positions_spec(self._settings.replicas))
        except (NatsError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ReadError(f"bucket {POSITIONS_BUCKET}", reason) from error
        return NatsBucket(self._client, self.log, POSITIONS_BUCKET)

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        await check_server(self._client, self._url)
        return ServerFacts(
            version=self._client.server_version,
            url=self._url,
            max_payload=self._client.max_payload,
            name=self._client.server_name,
        )

    async def storage(self) -> StorageFacts:
        """Return what is known of the streams; makes none.

        Raises:
            ReadError: the server refuses to tell, or does not answer.
        """
        clock = 0
        streams: list[StreamFacts] = []
        try:
            layout = await find_layout(self._client) or self._layout or Layout()
            for spec in specs(layout, self._settings.replicas):
                facts, now = await stream_facts(self._client, spec)
                clock = now or clock
                streams.append(facts)
        except (NatsError, TimeoutError) as error:
            raise ReadError("the streams", str(error) or "no answer in time") from error
        return StorageFacts(streams=tuple(streams), server_time=clock)

    async def health(self, streams: Sequence[str]) -> Health:
        """Return what an operator wants to know of *streams* and the account; makes none."""
        return await look_at_health(self._client, self._settings, streams)

    async def drop_mentions(self, agent: str, stream: str) -> int:
        """Take what waits for *agent* out of its inbox; return how many.

        Raises:
            BusError: the server refused.
        """
        return await drop_mentions(self._client, agent, stream)

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
    url = shown_url(settings.url)
    servers = _servers(settings.url)
    callbacks = _Callbacks(url, client)
    # The wait is typed as whole seconds and works with fractions.
    options: dict[str, Any] = {"reconnect_time_wait": _RECONNECT_WAIT_S}
    options |= connect_options(settings)
    try:
        await in_time(
            client.connect(
                servers,
                name=f"threadbus:{name}",
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                # A peer that is frozen is noticed before an append gives up.
                ping_interval=_PING_S,
                inbox_prefix=f"_INBOX_{name}".encode(),
                error_cb=callbacks.on_error,
                disconnected_cb=callbacks.on_disconnected,
                reconnected_cb=callbacks.on_reconnected,
                **options,
            ),
            settings.connect_timeout.total_seconds(),
        )
    except (TimeoutError, NoServersError, NatsError, OSError, ValueError) as error:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_S):
                await client.close()
        reason = callbacks.last_error or str(error) or "no answer in time"
        if is_refusal(reason):
            raise NotAdmittedError(url, settings.nkey or settings.credentials, reason) from None
        raise NoServerError(url, reason) from error
    try:
        client.start_answers()
        await check_server(client, url)
        backend = NatsBackend(client, settings)
        async with (
            backend.log.started(),
            running(backend.inboxes.watch(), f"threadbus.inboxes[{name}].sources"),
        ):
            callbacks.backend = backend
            try:
                yield backend
            finally:
                backend.inboxes.close()
    finally:
        callbacks.backend = None
        # The socket may have broken a moment ago; it is closed all the same.
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await client.close()


def _servers(url: str) -> list[str]:
    """Split a list of servers of one cluster, and refuse what is none of NATS.

    Raises:
        NoServerError: another scheme, or nothing.
    """
    servers = [server.strip() for server in url.split(",")]
    for server in servers:
        scheme, separator, _ = server.partition("://")
        if not server or (separator and scheme not in _SCHEMES):
            raise NoServerError(
                shown_url(url), "not a NATS URL; the form is nats://host:port or tls://host:port"
            )
    return servers


class _Callbacks:
    """What nats-py tells, put where it belongs."""

    def __init__(self, url: str, client: DirectClient) -> None:
        self._url = url
        self._client = client
        self._told_at = 0.0
        self.backend: NatsBackend | None = None
        self.last_error = ""

    async def on_error(self, error: Exception) -> None:
        text = str(error)
        if "permissions violation" in text.lower():
            self._client.on_denied(text.lower())
        if self.backend is None:
            # What the server says counts more than that the connection then ended.
            is_end = isinstance(error, ConnectionError | UnexpectedEOF) and self.last_error
            if not is_end and not is_refusal(self.last_error):
                self.last_error = text
            return
        # A key that was revoked may have been taken away with its file.
        if is_refusal(text) or isinstance(error, FileNotFoundError):
            self._client.on_revoked(self._url)
            self.backend.log.on_revoked(self._url)
        if isinstance(error, UnexpectedEOF):
            # The end of the connection, which is told next.
            return
        if "permissions violation" in text.lower():
            self.backend.log.on_permission_error(text.lower())
        elif not self._client.is_connected:
            if time.monotonic() >= self._told_at + _TELL_EVERY_S:
                self._told_at = time.monotonic()
                _log.warning("still no connection", url=self._url, error=text)
            return
        _log.warning("server error", url=self._url, error=text)

    async def on_disconnected(self) -> None:
        if self.backend is not None:
            self.backend.log.on_disconnected()
            self._told_at = time.monotonic()
            _log.warning("connection lost, reconnecting", url=self._url)

    async def on_reconnected(self) -> None:
        if self.backend is not None:
            # Whoever is told that it was lost must not be left with that.
            _log.warning("connection is back", url=self._url)
            self._client.on_reconnected()
            self.backend.inboxes.on_reconnected()
            self.backend.agents.on_reconnected()
            await self.backend.log.on_reconnected()
