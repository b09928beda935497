"""Numbers that a double cannot hold, through a protocol library that only knows doubles.

A2A's data parts and metadata are ``google.protobuf.Value``, whose numbers are doubles: 2^53 + 1
would arrive changed, and 1 would leave as 1.0. So a large integer of theirs is turned into a marked
string before the library parses a request, and each integer of an answer is a marked string until
the library has printed it. The mark holds a secret of this process, so that nobody else's text is
taken for one. Anywhere else a number is left to the library: in place of a text or an id it is
refused, and nobody gets to see the mark.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, Final, cast

from google.protobuf import message, struct_pb2

MAX_SAFE: Final = 2**53
"""Integers up to this size a double holds exactly."""

_MARK: Final = f"threadbus-exact-{secrets.token_hex(8)}:"
_LONG: Final = re.compile(rb"\d{16}")
_MARKED: Final = re.compile(b'"' + _MARK.encode() + rb'(-?\d+)"')
_SAFE_DIGITS: Final = 15
_VALUES: Final = frozenset({"data", "metadata"})
"""Under which keys A2A has a ``Value``, whose strings come back through :func:`unmark`."""


def mark(value: int) -> str:
    """Return the string that stands for a large integer inside the library."""
    return f"{_MARK}{value}"


def unmark(text: str) -> int | None:
    """Return the integer that *text* stands for, None where it is text.

    Raises:
        ValueError: the integer has more digits than Python converts.
    """
    return int(text[len(_MARK) :]) if text.startswith(_MARK) else None


def mark_numbers(body: bytes) -> bytes:
    """Mark the large integers of data and metadata in a JSON text; no JSON is returned as it is."""
    if not _LONG.search(body):
        return body
    try:
        value = json.loads(body, parse_int=_integer)
        return json.dumps(_settled(value, is_value=False)).encode()
    except (ValueError, RecursionError):
        # The library says what is wrong with it.
        return body


def unmark_numbers(body: bytes) -> bytes:
    """Put the large integers back into a JSON text that the library has printed."""
    return _MARKED.sub(rb"\1", body) if _MARK.encode() in body else body


class _Long(str):
    """The digits of an integer that a double does not hold."""

    __slots__ = ()


def _integer(digits: str) -> int | _Long:
    if len(digits) <= _SAFE_DIGITS:
        return int(digits)
    if len(digits) <= _SAFE_DIGITS + 3 and abs(int(digits)) <= MAX_SAFE:
        return int(digits)
    return _Long(digits)


def _settled(value: Any, *, is_value: bool) -> Any:
    """Mark the long integers within a ``Value``, and make integers of all others."""
    if isinstance(value, _Long):
        return f"{_MARK}{value}" if is_value else int(value)
    if isinstance(value, dict):
        return {
            key: _settled(item, is_value=is_value or key in _VALUES)
            for key, item in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [_settled(item, is_value=is_value) for item in value]  # pyright: ignore[reportUnknownVariableType] -- JSON
    return value


def marked(value: Any) -> Any:
    """Return a JSON value with its integers marked: of a double the library prints 1 as 1.0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return mark(value)
    if isinstance(value, dict):
        return {key: marked(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [marked(item) for item in value]  # pyright: ignore[reportUnknownVariableType] -- JSON
    return value


def unmark_values(value: message.Message) -> None:
    """Put the integers back into a message that goes out as protobuf, where there is no JSON text.

    Those that a double does not hold become the text of their digits.
    """
    if isinstance(value, struct_pb2.Value) and value.WhichOneof("kind") == "string_value":
        text = value.string_value
        if text.startswith(_MARK):
            digits = text[len(_MARK) :]
            is_safe = len(digits) <= _SAFE_DIGITS + 2 and abs(int(digits)) <= MAX_SAFE
            if is_safe:
                value.number_value = int(digits)
            else:
                value.string_value = digits
        return
    for field, found in value.ListFields():
        kind = field.message_type
        if kind is None:
            continue
        if kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].message_type is not None:
                for item in found.values():
                    unmark_values(item)
        elif isinstance(found, message.Message):
            unmark_values(found)
        else:
            for item in found:
                unmark_values(item)
