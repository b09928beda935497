"""Live messages as JSON values: what watchers see now and nobody stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from threadbus.bus.errors import PayloadTooLargeError
from threadbus.bus.ports import DataHandler
from threadbus.schemas import (
    AgentName,
    NotJsonError,
    parse_agent_name,
    parse_thread_id,
    shorten,
)

LiveHandler: TypeAlias = Callable[[AgentName, Any], None]
"""Called with the sender and the JSON value of a live message."""


def encode_live(data: Any, limit: int) -> bytes:
    """Encode a live message of at most *limit* bytes.

    Raises:
        NotJsonError: JSON has no word for it.
        PayloadTooLargeError: it has more bytes.
    """
    try:
        body = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        found = shorten(f"{type(data).__name__}: {error}")
        raise NotJsonError("a live message", found, "send text, or JSON values") from error
    if len(body) > limit:
        raise PayloadTooLargeError(len(body), limit)
    return body


def decoding(handler: LiveHandler) -> DataHandler:
    """Call *handler* for what is a live message; anything else is passed over."""

    def on_data(subject: str, body: bytes) -> None:
        try:
            _, _, thread, sender = subject.split(".")
            parse_thread_id(thread)
            name = parse_agent_name(sender)
            value = msgspec.json.decode(body)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return
        handler(name, value)

    return on_data
