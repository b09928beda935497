"""Checks on JSON as bytes, before and after msgspec has looked at it."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Final

import msgspec

from threadbus.schemas.diagnosis import find_text, why_not_encoded
from threadbus.schemas.errors import (
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    SchemaError,
    shorten,
)
from threadbus.schemas.limits import MAX_EVENT_BYTES, MAX_JSON_DEPTH

_ENCODER: Final = msgspec.json.Encoder()
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
# A backslash that is itself escaped does not start an escape.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKET: Final = bytes(byte for byte in range(256) if byte not in b"[{]}")


def check_json(body: bytes, max_bytes: int = MAX_EVENT_BYTES, what: str = "event") -> None:
    """Check the size, the depth and the text of JSON without decoding it.

    Raises:
        LimitExceededError: it is too long or nested too deep.
        InvalidTextError: a text holds NUL.
        MalformedEventError: it is not UTF-8.
    """
    if len(body) > max_bytes:
        raise LimitExceededError(
            f"bytes of one {what}", len(body), max_bytes, "put what is large into an artifact"
        )
    if body.count(b"[") + body.count(b"{") > MAX_JSON_DEPTH:
        depth = _depth(body)
        if depth > MAX_JSON_DEPTH:
            raise _too_deep(depth, what)
    if b"\\" in body and b"\\u0000" in body and _NUL.search(body):
        where, position = _find_nul(body, what)
        raise InvalidTextError(where, 0, position)
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise MalformedEventError(f"it is not UTF-8: {error}", preview(body), what) from error


def _depth(body: bytes) -> int:
    """Return how deep brackets nest, those inside strings left out; linear on any bytes."""
    if b"\\" in body:
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # With the escaped quotes gone, strings are every other piece between quotes.
    outside = b"".join(body.split(b'"')[::2])
    steps = outside.translate(_STEPS, _NOT_BRACKET)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _find_nul(body: bytes, what: str) -> tuple[str, int]:
    unknown = (f"a text of the {what}", -1)
    try:
        return find_text(_ANY.decode(body), what, "\0") or unknown
    except msgspec.DecodeError:
        return unknown


def encode_json(value: msgspec.Struct, where: str, what: str = "event") -> bytes:
    """Encode *value* as JSON; what a reader gets of it is not checked here.

    Raises:
        LimitExceededError: it is nested too deep, or an integer has too many digits.
        InvalidTextError: a text holds a lone surrogate.
        NotJsonError: a value that JSON cannot hold.
    """
    try:
        return _ENCODER.encode(value)
    except RecursionError as error:
        raise _too_deep(MAX_JSON_DEPTH + 1, what) from error
    except (TypeError, ValueError) as error:
        raise why_not_encoded(value, where, error) from error


def _too_deep(depth: int, what: str) -> LimitExceededError:
    return LimitExceededError(
        f"levels of JSON in one {what}", depth, MAX_JSON_DEPTH, "flatten it or attach it as a file"
    )


def why_malformed(
    body: bytes, error: Exception, reason: str = "", what: str = "event"
) -> SchemaError:
    """Explain why *body* did not decode.

    Args:
        body: all of it.
        error: what msgspec says.
        reason: what to say instead, unless it is a text that cannot travel.
        what: what it should have been.
    """
    surrogate = None if isinstance(error, msgspec.ValidationError) else _lone_surrogate(body)
    if surrogate is not None:
        return InvalidTextError(f"a text of the {what}", surrogate, -1)
    return MalformedEventError(reason or str(error), preview(body), what)


def _lone_surrogate(body: bytes) -> int | None:
    """Return the first escaped surrogate that is no half of a pair."""
    high = 0
    end = -1
    for match in _ESCAPE.finditer(body):
        code = int(match.group(1) or b"0", 16)
        is_low = 0xDC00 <= code <= 0xDFFF
        if high and not (is_low and match.start() == end):
            return high
        if is_low and not high:
            return code
        high = code if 0xD800 <= code <= 0xDBFF else 0
        end = match.end()
    return high or None


def preview(body: bytes) -> str:
    """Return how *body* starts, printable."""
    return shorten(body[:60].decode("utf-8", "backslashreplace"), 60)
