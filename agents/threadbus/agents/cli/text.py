"""Text for a terminal: what others wrote made harmless, and numbers made readable.

What an agent, a model or a file wrote may hold anything. Here control characters, escape
sequences and characters that reorder a line become visible escapes, which no terminal obeys.
"""

from __future__ import annotations

import os
import re
import time
from typing import Final

# Emoji of several people, and Persian and Indic words, need these two.
_JOINERS: Final = frozenset("\u200c\u200d")
_SURROGATE: Final = re.compile("[\udc80-\udcff]")
_MS: Final = 1_000_000
_S: Final = 1_000_000_000


def neutral(text: str) -> str:
    """Return *text* as one harmless line; line ends and tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in text)


def neutral_lines(text: str) -> str:
    """Return *text* with its line ends, each line harmless; tabs become spaces."""
    return "\n".join(neutral(line.rstrip()) for line in text.replace("\r\n", "\n").split("\n"))


def _escaped(character: str) -> str:
    if character in "\n\r\t" or (character.isspace() and ord(character) >= 0xA0):
        return " "
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def one_line(text: str, limit: int) -> str:
    """Return *text* as one harmless line of at most *limit* characters."""
    line = neutral(text[: limit * 2].strip())
    return line if len(line) <= limit and len(text) <= limit * 2 else f"{line[: limit - 1]}…"


def duration(ns: int) -> str:
    """Return a length of time: ``37 ms``, ``1.2 s``, ``2 min 5 s``, ``3 h 1 min``, ``4 d 2 h``."""
    ns = max(ns, 0)
    seconds = ns // _S
    if seconds < 1:
        return f"{ns // _MS} ms"
    if seconds < 60:
        return f"{ns / _S:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400:,} d {seconds % 86_400 // 3600} h"


def ago(at_ns: int, now_ns: int | None = None) -> str:
    """Return how long ago something was."""
    if at_ns <= 0:
        return "-"
    seconds = max(0, (time.time_ns() if now_ns is None else now_ns) - at_ns) // _S
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:,} {unit} ago"
    return f"{seconds} s ago"


def size(count: int) -> str:
    """Return a number of bytes: ``12 B``, ``1.2 kB``, ``3.4 MB``."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def plural(count: int, word: str) -> str:
    """Return *count* with *word*, in the plural where it must be."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def safe_url(url: str) -> str:
    """Return *url* without the password or token in it."""
    before, at, host = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, user = before.rpartition("://")
    name, colon, _ = user.partition(":")
    return f"{scheme}{slashes}{name if colon else ''}:…@{host}"


def typed(text: str) -> str:
    """Return an argument as text: in a locale without Unicode its bytes are taken as UTF-8."""
    if not _SURROGATE.search(text):
        return text
    return os.fsencode(text).decode("utf-8", "replace")
