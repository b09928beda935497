"""Text and JSON that cross a gateway: what cannot travel is replaced, everything has a bound.

What a foreign client, server or model sends may hold lone surrogates (its JSON escapes carry
them), NUL, or more than anybody can use. :func:`threadbus.schemas.clean_text` repairs one string;
here are the rest.
"""

from __future__ import annotations

from typing import Any, Final, cast

from threadbus.schemas import MAX_JSON_DEPTH, LimitExceededError, clean_text

MAX_TEXT_CHARS: Final = 4 * 1024 * 1024
"""Characters of one text that a gateway takes."""

MAX_JSON_ITEMS: Final = 100_000
"""Values, at all levels, of one JSON value that a gateway takes."""

_LINE_ENDS: Final = str.maketrans({"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def bounded_text(what: str, value: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return *value* as an event can carry it, once its length is known to be within *limit*.

    Args:
        what: which text, for the error.
        value: any string, also one with lone surrogates.
        limit: characters, inclusive.

    Raises:
        LimitExceededError: it is longer; the way out is to send a part of it.
    """
    if len(value) > limit:
        raise LimitExceededError(
            what, len(value), limit, "send less text, or several messages, or a file"
        )
    return clean_text(value)


def clean_json(value: Any, *, what: str = "the JSON value") -> Any:
    """Return a JSON value with every string, keys included, fit to travel.

    Args:
        value: what ``json.loads`` could have given.
        what: which value, for the error.

    Raises:
        LimitExceededError: it is nested too deeply, or has too many values.
    """
    return _Cleaner(what).clean(value, 1)


class _Cleaner:
    def __init__(self, what: str) -> None:
        self._what = what
        self._items = 0

    def clean(self, value: Any, level: int) -> Any:
        self._items += 1
        if self._items > MAX_JSON_ITEMS:
            raise LimitExceededError(
                f"values in {self._what}", self._items, MAX_JSON_ITEMS, "send it as a file"
            )
        if level > MAX_JSON_DEPTH:
            raise LimitExceededError(
                f"levels of {self._what}", level, MAX_JSON_DEPTH, "nest it less"
            )
        if isinstance(value, str):
            return clean_text(value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {clean_text(str(key)): self.clean(item, level + 1) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.clean(item, level + 1) for item in cast("list[Any]", value)]
        return value


def cut_text(value: str, limit: int, hint: str = "") -> str:
    """Return *value* in at most *limit* bytes of UTF-8; what is cut is said at the end.

    Args:
        value: text without lone surrogates.
        limit: bytes of the result, its note included; at least 200.
        hint: how to get the rest.
    """
    body = value.encode()
    if len(body) <= limit:
        return value
    note = f"\n[cut: {len(body):,} bytes in all{f'; {hint}' if hint else ''}]"
    kept = body[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept + note


def escape_line_ends(json_text: str) -> str:
    """Escape, in a JSON text, the three characters that some readers of SSE take for line ends.

    U+0085, U+2028 and U+2029 may stand in a JSON string as they are, and the escaped form means
    the same. Outside of strings no JSON holds them.
    """
    return json_text.translate(_LINE_ENDS)
