"""Finding out, or deciding, over how many streams a bus is spread.

The first stream of the log that is made decides it, for all who come after and for good: a
super-task is found by the hash over that number. The server refuses a second decision, since the
subjects of the two would overlap.
"""

from __future__ import annotations

from typing import Any, Final

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.layout import (
    INBOX_STREAM,
    INBOXES_KEY,
    LOG_STREAM,
    PARTITIONS_KEY,
    Layout,
)
from threadbus.bus._nats.streams import NOT_FOUND, ensure_stream, metadata_of, ready, specs
from threadbus.bus.errors import PermissionDeniedError, StreamMismatchError
from threadbus.bus.settings import BusSettings
from threadbus.schemas import MAX_PARTITIONS

_TRIES: Final = 4


async def find_layout(client: DirectClient) -> Layout | None:
    """Return how an existing bus is spread; None where there is none yet.

    Raises:
        nats.errors.Error, TimeoutError: the server does not say it now.
        StreamMismatchError: what is there is not ours.
    """
    partitions = 0
    if await _config(client, LOG_STREAM) is not None:
        partitions = 1
    else:
        first = f"{LOG_STREAM}-0"
        config = await _config(client, first)
        if config is None:
            return None
        partitions = _count(first, config, PARTITIONS_KEY)
    config = await _config(client, INBOX_STREAM)
    inboxes = 0 if config is None else _count(INBOX_STREAM, config, INBOXES_KEY, absent=1)
    return Layout(partitions, inboxes)


async def _config(client: DirectClient, stream: str) -> dict[str, Any] | None:
    try:
        found = await ready(client, f"STREAM.INFO.{stream}")
    except PermissionDeniedError:
        # Whoever made these permissions knew of no such stream.
        return None
    if found.err_code == NOT_FOUND:
        return None
    if found.error is not None:
        raise StreamMismatchError(stream, [found.error.description])
    return found.config


def _count(stream: str, config: dict[str, Any], key: str, *, absent: int = 0) -> int:
    text = metadata_of(config).get(key, str(absent))
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MAX_PARTITIONS:
        wrong = f"its metadata {key} is {text!r} and must be from 1 to {MAX_PARTITIONS}"
        raise StreamMismatchError(stream, [wrong])
    return count


async def ensure_streams(client: DirectClient, settings: BusSettings) -> Layout:
    """Make the streams that are missing, check and update the others, and say how they are spread.

    Raises:
        nats.errors.Error, TimeoutError: the server is not ready.
        StreamMismatchError: what is there cannot be brought to what is needed, or is spread in
            another way than the settings say.
    """
    for attempt in range(_TRIES):
        found = await find_layout(client) or Layout(0, 0)
        layout = Layout(
            _decide(f"{LOG_STREAM}-0", "partitions", found.partitions, settings.partitions),
            _decide(INBOX_STREAM, "inboxes", found.inboxes, settings.inboxes),
        )
        try:
            for spec in specs(layout, settings.replicas):
                await ensure_stream(client, spec)
        except StreamMismatchError:
            # Another process may have decided in the meantime, and otherwise.
            if attempt == _TRIES - 1 or await find_layout(client) in (found, layout):
                raise
        else:
            return layout
    raise AssertionError("the last attempt returns or raises")


def _decide(stream: str, what: str, found: int, wanted: int) -> int:
    if found and wanted and found != wanted:
        if found == 1:
            stream = stream.removesuffix("-0")
        wrong = (
            f"this bus has {found} {what} and not {wanted} (--{what}); "
            "that is decided when its first stream is made"
        )
        raise StreamMismatchError(stream, [wrong])
    return found or wanted or 1
