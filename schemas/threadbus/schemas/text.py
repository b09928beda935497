"""Text that can travel: what comes from a model, a tool or a traceback, made fit for an event."""

from __future__ import annotations

import re
from typing import Final

_CANNOT_TRAVEL: Final = re.compile("[\x00\ud800-\udfff]")


def clean_text(value: str, limit: int | None = None) -> str:
    """Return *value* with U+FFFD in place of NUL and lone surrogates, and not too long.

    Args:
        value: any string.
        limit: characters that the result may have; what is over is cut and ends with ``…``.
            No limit when absent.

    Returns:
        *value* itself where nothing had to change.
    """
    if limit is not None and len(value) > limit:
        value = f"{value[: max(0, limit - 1)]}…"[:limit]
    return _CANNOT_TRAVEL.sub("\ufffd", value)
