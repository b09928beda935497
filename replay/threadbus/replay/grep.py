"""Whether an event says a text anywhere: in a message, a plan, a call of a tool, an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import msgspec

from threadbus.schemas import Event, Recorded, encode_event

MAX_TEXT_CHARS: Final = 1_000
"""Characters of a text that is looked for."""

_NO_WORDS: Final = frozenset({"kind", "media_type", "content", "sha256"})


class _Body(msgspec.Struct):
    data: object = None


_BODY: Final = msgspec.json.Decoder(_Body)


class Grep:
    """Looks for one text, capitals aside, in all of what events say.

    Args:
        text: what to look for; plain text, no pattern.
    """

    def __init__(self, text: str) -> None:
        self._wanted = text.casefold()
        raw = text.lower().encode("utf-8", "surrogatepass")
        # What JSON writes as it is can be looked for in the bytes, which is many times faster.
        is_plain = raw.isascii() and raw.decode().isprintable() and not set(raw) & set(b'"\\/')
        self._raw = raw if is_plain else None

    def finds(self, item: Recorded) -> bool:
        """Whether the event says it."""
        body = item.body or encode_event(item.event)
        if (
            self._raw is not None
            and body.isascii()
            and b"\\" not in body
            and self._raw not in body.lower()
        ):
            return False
        return any(self._wanted in text.casefold() for text in _texts(item.event, body))


def _texts(event: Event, body: bytes) -> Iterator[str]:
    try:
        data = _BODY.decode(body).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = None
    yield event.type
    waiting: list[object] = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, inner in cast("dict[str, object]", value).items():
                if key not in _NO_WORDS:
                    waiting.append(inner)
        elif isinstance(value, list):
            waiting.extend(cast("list[object]", value))
