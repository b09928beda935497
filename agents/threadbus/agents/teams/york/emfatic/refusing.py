"""What no text may hold, before it is parsed: too many characters, and those that nobody sees."""

from __future__ import annotations

import re
from typing import Final

from threadbus.agents.teams.york.emfatic.model import Place, Problem

MAX_CHARS: Final = 100_000
"""Characters of one text."""

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\uffff\ud800-\udfff]"
)
"""Control characters, those that turn the direction of what is shown, and halves of characters."""


def normal(text: str) -> str:
    """Return a text with one kind of line end and without a mark of its encoding."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def refused(text: str) -> Problem | None:
    """Return why a text is not even parsed, None where it is."""
    if len(text) > MAX_CHARS:
        message = f"{len(text):,} characters are over the limit of {MAX_CHARS:,}; split the package"
        return Problem(Place(1, 1), message, "size")
    hidden = _HIDDEN.search(text)
    if hidden is None:
        return None
    before = text[: hidden.start()]
    place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
    message = f"the character U+{ord(hidden[0]):04X} cannot be seen; take it away"
    return Problem(place, message, "character")
