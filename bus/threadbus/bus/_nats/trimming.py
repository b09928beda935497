"""Take the oldest part of the log away, of which nothing can be deleted or purged.

``deny_delete`` and ``deny_purge`` cannot be taken back. What remains is an age: the operator sets
``max_age`` for as long as it takes the server to drop what is older, and takes it back.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec

from threadbus.bus._nats.api import api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import parse_time
from threadbus.bus._nats.layout import INBOX_STREAM, LOG_STREAM
from threadbus.bus._nats.snapshots import list_streams
from threadbus.bus.errors import ReadError, StreamMismatchError

_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.2
_MAX_PAGES: Final = 10_000
_MARK: Final = "threadbus_max_age_before"
"""In the metadata of a stream that is being shortened: the age that it had."""


class _Times(msgspec.Struct, frozen=True):
    messages: int = 0
    first_ts: str = ""


class _Info(msgspec.Struct, frozen=True):
    config: dict[str, Any]
    state: _Times
    ts: str


class _Subjects(msgspec.Struct, frozen=True):
    subjects: dict[str, int] | None = None


class _Source(msgspec.Struct, frozen=True):
    name: str
    lag: int = 0


class _Page(msgspec.Struct, frozen=True):
    state: _Subjects = _Subjects()
    total: int = 0
    sources: tuple[_Source, ...] | None = None


async def waiting_tasks(client: DirectClient) -> set[str]:
    """Return the super-tasks of which a mention waits in some inbox.

    Raises:
        ReadError: an inbox has yet to take mentions from the log, or from the hub before it: what
            left the log would never come.
        NatsError, TimeoutError: there was no answer.
    """
    found: set[str] = set()
    names = [stream.name for stream in await list_streams(client)]
    for name in names:
        if name.partition("-")[0] != INBOX_STREAM:
            continue
        # A hub before the inboxes keeps all for a day; what waits is in the inboxes behind it.
        is_hub = name == INBOX_STREAM and f"{INBOX_STREAM}-0" in names
        offset = 0
        for _ in range(_MAX_PAGES):
            request = {"subjects_filter": ">", "offset": offset}
            body = msgspec.json.encode(request)
            answer = await client.ask(f"$JS.API.STREAM.INFO.{name}", body, timeout_s=30)
            page = msgspec.json.decode(answer.body, type=_Page)
            for source in page.sources or ():
                if source.lag:
                    raise ReadError(
                        name,
                        f"it is {source.lag:,} events behind {source.name}: wait until it is not, "
                        "or see `bus doctor`",
                    )
            if is_hub:
                break
            subjects = page.state.subjects or {}
            # mention.<agent>.<task>.…
            found |= {tokens[2] for s in subjects if len(tokens := s.split(".")) > 2}
            offset += len(subjects)
            if not subjects or offset >= page.total:
                break
    return found


async def trim_log(client: DirectClient, before: int, spare: int) -> int:
    """Drop what was stored before a time from every stream of the log.

    Args:
        client: the connection of an operator.
        before: nanoseconds since the epoch by the server's clock.
        spare: nanoseconds; what was stored so long before *before* stays too, so that a server
            that takes its time drops nothing that is younger.

    Returns:
        How many messages are gone.

    Raises:
        StreamMismatchError: the server refuses the change.
        ReadError: the server has not dropped it in time.
        NatsError, TimeoutError: there was no answer.
    """
    gone = 0
    for stream in await list_streams(client):
        if stream.name.partition("-")[0] == LOG_STREAM:
            gone += await _trim(client, stream.name, before - spare)
    return gone


async def _trim(client: DirectClient, name: str, until: int) -> int:
    start = await _info(client, name)
    if _MARK in start.config.get("metadata", {}):
        # An earlier one was killed in the middle.
        await _restore(client, name)
        start = await _info(client, name)
    if start.state.messages == 0 or parse_time(start.state.first_ts) >= until:
        return 0
    own = start.config.get("max_age", 0)
    metadata = {**start.config.get("metadata", {}), _MARK: str(own)}
    age = parse_time(start.ts) - until
    await _update(client, name, {**start.config, "max_age": age, "metadata": metadata})
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            info = await _info(client, name)
            if info.state.messages == 0 or parse_time(info.state.first_ts) >= until:
                return start.state.messages - info.state.messages
            if time.monotonic() >= deadline:
                raise ReadError(f"stream {name}", "the server has not dropped what is too old")
            await asyncio.sleep(_PAUSE_S)
    finally:
        # Whatever happens: an age that stays takes what is of now, once it is old enough.
        await asyncio.shield(_restore(client, name))


async def _restore(client: DirectClient, name: str) -> None:
    """Set the age that the stream had before."""
    config = (await _info(client, name)).config
    metadata = dict(config.get("metadata", {}))
    age = int(metadata.pop(_MARK, "0"))
    await _update(client, name, {**config, "max_age": age, "metadata": metadata})


async def _info(client: DirectClient, name: str) -> _Info:
    answer = await client.ask(f"$JS.API.STREAM.INFO.{name}", b"", timeout_s=30)
    return msgspec.json.decode(answer.body, type=_Info)


async def _update(client: DirectClient, name: str, config: dict[str, Any]) -> None:
    answer = await api(client, f"STREAM.UPDATE.{name}", config)
    if answer.error is not None:
        raise StreamMismatchError(name, [answer.error.description])
