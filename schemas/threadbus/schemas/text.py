"""Text that can travel: what comes from a model, a tool or a traceback, made fit for an event."""

from __future__ import annotations

import re
from typing import Final

_CANNOT_TRAVEL: Final = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


def clean_text(value: str, limit: int | None = None) -> str:
    """Return *value* as an event can carry it.

    NUL and lone surrogates become U+FFFD. Two surrogates that make a character together, as when
    its halves came in different deltas, become that character.

    Args:
        value: any string.
        limit: characters that the result may have; what is over is cut and ends with ``…``.
            No limit when absent.

    Returns:
        *value* itself where nothing had to change.
    """
    if _CANNOT_TRAVEL.search(value):
        joined = value.replace("\0", _REPLACEMENT).encode("utf-16-le", "surrogatepass")
        value = joined.decode("utf-16-le", "replace")
    if limit is not None and len(value) > limit:
        value = f"{value[: max(0, limit - 1)]}…"[:limit]
    return value
