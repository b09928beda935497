"""Lines for a terminal, a pipe or a file: colours, width and signs that the reader can take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TextIO

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from threadbus.replay.text import fit, neutral

MIN_WIDTH: Final = 40
"""Columns that are used even of a terminal that claims to have fewer."""

_FLUSH_CHARS: Final = 1 << 16
# The signs that this program uses itself, for readers that have only ASCII.
_ASCII_SIGNS: Final = str.maketrans(
    {
        "├": "|",
        "└": "`",
        "│": "|",
        "┆": ":",
        "─": "-",
        "←": "<-",
        "→": "->",
        "·": "-",
        "…": "...",
        "✓": "ok",
        "✗": "x",
    }
)
_STYLES: Final[Mapping[str, str]] = {
    "plain": "",
    "dim": "dim",
    "bold": "bold",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "thread": "bold",
}
_AGENT_COLORS: Final = ("cyan", "magenta", "blue", "green", "bright_cyan", "bright_magenta")


class Span(NamedTuple):
    """A piece of a line: text that is clean already, and how it looks."""

    text: str
    style: str = "plain"
    """A name of the table above, or ``agent:`` and a number."""


class Painter:
    """Writes lines made of spans.

    Args:
        stream: where to.
        width: columns of a line; ``None`` for a pipe or a file, where nothing is cut to a width.
        has_color: whether to write colours.
        is_ascii: whether to write ASCII only; other characters become ``\\u…``.
    """

    def __init__(
        self, stream: TextIO, *, width: int | None, has_color: bool, is_ascii: bool
    ) -> None:
        self.width = None if width is None else max(width, MIN_WIDTH)
        self.is_ascii = is_ascii
        self._stream = stream
        self._has_color = has_color
        self._console = Console(file=stream, width=80, color_system=None)
        self._pending: list[str] = []
        self._pending_chars = 0

    def clean(self, text: str) -> str:
        """Return text from an event as one line that is safe to show."""
        text = neutral(text)
        return _to_ascii(text) if self.is_ascii and not text.isascii() else text

    def cells(self, text: str) -> int:
        """Return how many columns *text* takes."""
        if text.isascii():
            return len(text)
        return len(_to_ascii(text)) if self.is_ascii else cell_len(text)

    def fit(self, text: str, cells: int) -> str:
        """Return clean *text* cut to *cells* columns."""
        if self.is_ascii:
            return text if len(text) <= cells else f"{text[: max(cells - 3, 0)]}..."
        return fit(text, cells)

    def wrap(self, text: str, cells: int) -> list[str]:
        """Return clean *text* in lines of at most *cells* columns, broken between words."""
        if self.width is None or self.cells(text) <= cells:
            return [text]
        return [line.plain.rstrip() for line in Text(text).wrap(self._console, cells)]

    def line(self, spans: Iterable[Span] = ()) -> None:
        """Write one line."""
        if self._has_color:
            line = "".join([_painted(text, style) for text, style in spans])
        else:
            line = "".join([text for text, _ in spans]).rstrip()
        if self.is_ascii and not line.isascii():
            line = _to_ascii(line)
        self._pending.append(line)
        self._pending_chars += len(line)
        if self._pending_chars > _FLUSH_CHARS:
            self.flush()

    def flush(self) -> None:
        """Hand over to the reader what was written so far."""
        if self._pending:
            self._pending.append("")
            self._stream.write("\n".join(self._pending))
            self._pending.clear()
            self._pending_chars = 0
        self._stream.flush()


def painter_for(
    stream: TextIO,
    environ: Mapping[str, str] | None = None,
    *,
    width: int | None = None,
    has_color: bool = True,
) -> Painter:
    """Return a painter that suits *stream*.

    Colours only for a terminal, and not where ``NO_COLOR`` is set; the terminal's width; ASCII
    where the locale is ``C`` or ``POSIX``, or the encoding cannot hold more.

    Args:
        stream: where the lines go.
        environ: the environment; that of the process when absent.
        width: columns, which count for a pipe, too.
        has_color: false for no colours in any case.
    """
    environ = os.environ if environ is None else environ
    console = Console(file=stream)
    can_color = console.color_system is not None and not environ.get("NO_COLOR")
    return Painter(
        stream,
        width=width or (console.width if stream.isatty() else None),
        has_color=has_color and can_color,
        is_ascii=_wants_ascii(stream, environ),
    )


def _wants_ascii(stream: TextIO, environ: Mapping[str, str]) -> bool:
    encoding = (stream.encoding or "ascii").lower().replace("-", "").replace("_", "")
    if not encoding.startswith("utf"):
        return True
    # Python itself sets LC_CTYPE to C.UTF-8 when it finds the C locale, so that value says nothing.
    ctype = environ.get("LC_CTYPE", "")
    if ctype in {"C.UTF-8", "C.utf8", "UTF-8"}:
        ctype = ""
    locale = environ.get("LC_ALL") or ctype or environ.get("LANG") or ""
    return locale in {"C", "POSIX"}


def agent_style(index: int) -> str:
    """Return the style of the agent that came up as number *index*."""
    return f"agent:{index % len(_AGENT_COLORS)}"


def _to_ascii(text: str) -> str:
    return text.translate(_ASCII_SIGNS).encode("ascii", "backslashreplace").decode()


@lru_cache(maxsize=64)
def _codes(style: str) -> tuple[str, str]:
    kind, _, number = style.partition(":")
    parsed = Style.parse(_AGENT_COLORS[int(number)] if kind == "agent" else _STYLES[style])
    before, _, after = parsed.render("\0", color_system=ColorSystem.STANDARD).partition("\0")
    return before, after


def _painted(text: str, style: str) -> str:
    if not text or style == "plain":
        return text
    before, after = _codes(style)
    return f"{before}{text}{after}"
