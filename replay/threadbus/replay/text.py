"""Text for people: what events say made harmless, short and readable.

Everything an agent, a model or a file wrote goes through :func:`neutral` before it reaches a
terminal: control characters, escape sequences and characters that reorder a line become visible
escapes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len, set_cell_size

LAST_NS: Final = 2**62
"""The latest time that is kept, in nanoseconds; what an event says beyond it is cut to this."""

_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_MINUTE: Final = 60 * _S
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
# Emoji of several people, and Persian and Indic words, need these two.
_JOINERS: Final = frozenset("\u200c\u200d")


def neutral(text: str) -> str:
    """Return *text* as one harmless line.

    Line ends, tabs and odd spaces become spaces. Control and format characters (escape, bell,
    right-to-left overrides…) become escapes such as ``\\x1b``, which a terminal does not obey.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _JOINERS else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    if character in "\n\r\t" or (character.isspace() and ord(character) > 0xA0):
        return " "
    code = ord(character)
    if code <= 0xFF:
        return " " if code == 0xA0 else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def first_line(text: str, limit: int) -> str:
    """Return the first line of *text* that says something, harmless, at most *limit* characters.

    A last ``…`` says that there is more.
    """
    head = text[: 4 * limit].strip()
    line, _, rest = head.partition("\n")
    line = neutral(line.strip())
    if len(line) > limit:
        return f"{line[: limit - 1]}…"
    more = bool(rest.strip()) or len(text.strip()) > len(head)
    return f"{line} …" if more else line


def fit(text: str, cells: int) -> str:
    """Return *text* cut to *cells* columns of a terminal, with ``…`` where something is missing."""
    if (len(text) if text.isascii() else cell_len(text)) <= cells:
        return text
    if cells <= 1:
        return "…"[:cells]
    return set_cell_size(text, cells - 1).rstrip() + "…"


def duration(ns: int) -> str:
    """Return a length of time in two units at most: ``3 ms``, ``1.20 s``, ``2 min 5 s``."""
    ns = max(ns, 0)
    if ns < _MS:
        return "0 ms" if ns < _MS // 10 else f"{ns / _MS:.1f} ms"
    if ns < _S:
        return f"{ns // _MS} ms"
    if ns < _MINUTE:
        return (
            f"{ns // (_S // 100) / 100:.2f} s" if ns < 10 * _S else f"{ns // (_S // 10) / 10:.1f} s"
        )
    if ns < _HOUR:
        return f"{ns // _MINUTE} min {ns % _MINUTE // _S} s"
    if ns < _DAY:
        return f"{ns // _HOUR} h {ns % _HOUR // _MINUTE} min"
    return f"{ns // _DAY:,} d {ns % _DAY // _HOUR} h"


def offset(ns: int) -> str:
    """Return the time since the start of a run in at most seven characters: ``+1.2s``."""
    ns = max(ns, 0)
    if ns < _S:
        return f"+{ns // _MS}ms"
    if ns < 100 * _S:
        return f"+{ns // (_S // 100) / 100:.2f}s"
    if ns < 100 * _MINUTE:
        return f"+{ns // _MINUTE}m{ns % _MINUTE // _S:02}s"
    if ns < 100 * _HOUR:
        return f"+{ns // _HOUR}h{ns % _HOUR // _MINUTE:02}m"
    return f"+{min(ns // _DAY, 99_999)}d"


def moment(ns: int) -> str:
    """Return a time for a person, in UTC to the second."""
    try:
        when = datetime.fromtimestamp(ns // _S, UTC)
    except (OverflowError, ValueError, OSError):
        return "at no time that a calendar has"
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def money(amount: float, currency: str) -> str:
    """Return a cost with as many digits as say something: ``0.0123 USD``."""
    digits = 4 if amount >= 0.01 else 6
    if amount >= 1 or not amount:
        digits = 2
    return f"{amount:,.{digits}f} {first_line(currency, 12)}"


def size(count: int) -> str:
    """Return a number of bytes for a person."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return plural(count, "byte")


def plural(count: int, word: str) -> str:
    """Return *count* with *word*, in the plural where it must be."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
