"""Numbers that a double cannot hold, through a protocol library that only knows doubles.

A2A's data parts are ``google.protobuf.Value``, whose numbers are doubles: 2^53 + 1 would arrive
changed, and 1 would leave as 1.0. So a large integer of a request is turned into a marked string
before the library parses it, and each integer of an answer is a marked string until the library
has printed it. The mark holds a secret of this process, so that nobody else's text is taken for
one.
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
    """Mark the large integers of a JSON text; what is no JSON is returned as it is."""
    if not _LONG.search(body):
        return body
    try:
        value = json.loads(body, parse_int=_integer)
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        # The library says what is wrong with it.
        return body


def unmark_numbers(body: bytes) -> bytes:
    """Put the large integers back into a JSON text that the library has printed."""
    return _MARKED.sub(rb"\1", body) if _MARK.encode() in body else body


def _integer(digits: str) -> int | str:
    if len(digits) <= _SAFE_DIGITS:
        return int(digits)
    if len(digits) <= _SAFE_DIGITS + 3 and abs(int(digits)) <= MAX_SAFE:
        return int(digits)
    return f"{_MARK}{digits}"


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
