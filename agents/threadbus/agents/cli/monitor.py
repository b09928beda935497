"""The monitoring page of a nats-server, as far as `bus doctor` looks at it."""

from __future__ import annotations

from typing import Final, TypeVar

import httpx
import msgspec

from threadbus.agents.cli.failures import MonitorError

_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 8 * 1024 * 1024
_CONNECTIONS: Final = 256
_OK: Final = 200
SLOW: Final = "slow consumer"


class JetStreamConfig(msgspec.Struct):
    """Where and how the server keeps streams."""

    max_storage: int = 0
    store_dir: str = ""
    sync_interval: int = 0
    """Nanoseconds."""
    sync_always: bool = False


class _JetStreamStats(msgspec.Struct):
    storage: int = 0


class _JetStreamLimits(msgspec.Struct):
    default_max_consumers: int = 0


class _JetStream(msgspec.Struct):
    config: JetStreamConfig = msgspec.field(default_factory=JetStreamConfig)
    stats: _JetStreamStats = msgspec.field(default_factory=_JetStreamStats)
    limits: _JetStreamLimits = msgspec.field(default_factory=_JetStreamLimits)


class ServerPage(msgspec.Struct):
    """The page ``/varz``."""

    server_name: str = ""
    host: str = ""
    slow_consumers: int = 0
    connections: int = 0
    max_connections: int = 0
    max_pending: int = 0
    jetstream: _JetStream = msgspec.field(default_factory=_JetStream)


class ConnectionRow(msgspec.Struct):
    """A connection of the page ``/connz``."""

    cid: int = 0
    name: str = ""
    ip: str = ""
    pending_bytes: int = 0
    reason: str = ""


class _Connections(msgspec.Struct):
    connections: tuple[ConnectionRow, ...] = ()


class Monitor(msgspec.Struct):
    """What the monitoring page says."""

    server: ServerPage
    open: tuple[ConnectionRow, ...]
    """Those for which most bytes wait come first."""
    cut: tuple[ConnectionRow, ...]
    """Closed because they did not read fast enough, as far as the server remembers them."""


_PageT = TypeVar("_PageT", ServerPage, _Connections)


async def look_at_monitor(url: str) -> Monitor:
    """Read the monitoring page.

    Args:
        url: as http://127.0.0.1:8222.

    Raises:
        MonitorError: it cannot be read.

    Cancellation: safe.
    """
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as client:
            server = await _page(client, url, "/varz", ServerPage)
            waiting = await _page(
                client, url, f"/connz?sort=pending&limit={_CONNECTIONS}", _Connections
            )
            closed = await _page(
                client, url, f"/connz?state=closed&limit={_CONNECTIONS}", _Connections
            )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise MonitorError(url, str(error) or type(error).__name__) from error
    cut = tuple(one for one in closed.connections if SLOW in one.reason.lower())
    return Monitor(server, waiting.connections, cut)


async def _page(client: httpx.AsyncClient, url: str, path: str, kind: type[_PageT]) -> _PageT:
    content = bytearray()
    async with client.stream("GET", path) as response:
        if response.status_code != _OK:
            raise MonitorError(url, f"{path} answers {response.status_code}")
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _MAX_BYTES:
                raise MonitorError(url, f"{path} has more than {_MAX_BYTES:,} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise MonitorError(url, f"{path} is no page of a nats-server: {error}") from error
