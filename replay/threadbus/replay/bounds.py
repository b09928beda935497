"""The ends of a stretch of a run, as a person types them: ``120``, ``+1.5s``, ``2026-03-01T12:00``.

A sequence is a number alone. A time is ISO 8601, in UTC where it names no zone, or the time since
the opening, written as the tree writes it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from threadbus.replay.errors import FilterValueError
from threadbus.replay.text import LAST_NS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS: Final = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_OFFSET: Final = re.compile(r"\+(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h|d))+", re.ASCII)
_PIECE: Final = re.compile(r"([0-9.]+)(ms|s|m|h|d)", re.ASCII)
_SEQUENCE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_MAX_CHARS: Final = 64


class Bound(msgspec.Struct, frozen=True):
    """One end of a stretch; exactly one of the three is set."""

    text: str
    """As it was typed."""
    seq: int | None = None
    at: int | None = None
    """Nanoseconds since the epoch."""
    offset: int | None = None
    """Nanoseconds since the opening."""

    def is_after(self, other: Bound) -> bool:
        """Whether this is later than *other*; false where they are of two kinds."""
        pairs = ((self.seq, other.seq), (self.at, other.at), (self.offset, other.offset))
        return any(a is not None and b is not None and a > b for a, b in pairs)

    def place(self, seq: int, at: int, start: int) -> int:
        """Return how far an entry is beyond this bound: negative before it, 0 at it.

        Args:
            seq: of the entry.
            at: when it was stored.
            start: when the run was opened.
        """
        if self.seq is not None:
            return seq - self.seq
        if self.at is not None:
            return at - self.at
        return at - start - (self.offset or 0)


def parse_bound(text: str, option: str) -> Bound:
    """Return the bound that *text* says.

    Args:
        text: what was typed.
        option: where, for the message.

    Raises:
        FilterValueError: it is neither a sequence nor a time.
    """
    typed = text.strip()
    if len(typed) <= _MAX_CHARS:
        if _SEQUENCE.fullmatch(typed):
            return Bound(typed, seq=int(typed))
        if _OFFSET.fullmatch(typed):
            pieces = _PIECE.findall(typed)
            return Bound(typed, offset=min(sum(_length(*piece) for piece in pieces), LAST_NS))
        at = _iso(typed)
        if at is not None:
            return Bound(typed, at=at)
    raise FilterValueError(
        option, text, "a sequence (120), the time since the opening (+1.5s) or ISO 8601 in UTC"
    )


def _length(number: str, unit: str) -> int:
    whole, _, part = number.partition(".")
    return int(whole) * _NS[unit] + int(part.ljust(9, "0") or 0) * _NS[unit] // 10**9


def _iso(text: str) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return (when - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError):
        return None
