"""One line of the tree on paper: a gutter with the time, branches, facts, and text that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from threadbus.replay.paint import Painter, Span

GUTTER: Final = 9
"""Columns before the tree: the time since the start, and a space."""

_MIN_TEXT_CELLS: Final = 24
"""Columns that a text must have beside what stands before it; otherwise it starts below."""

_MIN_CELLS: Final = 8
"""Columns that are used even where the branches leave less."""

_SEPARATOR: Final = " · "


class Row(NamedTuple):
    """What one line says, whatever the width: it goes on below itself where it is too long."""

    head: Sequence[Span]
    facts: Sequence[Span] = ()
    text: str = ""
    """Clean text; cut to the width."""
    lead: str = ": "
    text_style: str = "plain"
    wraps: bool = False
    """Whether all of the text is shown, in as many lines as it takes."""


def write_row(painter: Painter, time: str, first: str, rest: str, row: Row) -> None:
    """Write a row.

    Args:
        painter: where to.
        time: what stands in the gutter.
        first: the branches before its first line.
        rest: the branches before the lines that it goes on in.
        row: the row.
    """
    line = _Line(painter, f"{time:>{GUTTER - 1}} {first}", f"{'':{GUTTER}}{rest}  ")
    line.reserve = painter.cells(row.lead.rstrip()) if row.text else 0
    line.add(row.head)
    for fact in row.facts:
        line.add((Span(_SEPARATOR, "dim"), fact))
    if row.text:
        line.add_text(row)
    line.end()


class _Line:
    """A line in the making; breaks between pieces where the next one would be over the edge."""

    def __init__(self, painter: Painter, first: str, rest: str) -> None:
        self._painter = painter
        self._rest = rest
        self._spans = [Span(first, "dim")]
        self._used = len(first)
        self._start = self._used
        self.reserve = 0
        """Columns that are kept free for the sign before the text."""

    def add(self, piece: Sequence[Span]) -> None:
        """Add *piece*, which stays together where that is possible."""
        width = self._width
        cells = sum([self._painter.cells(span.text) for span in piece])
        if width is None or self._used + cells <= width:
            self._spans.extend(piece)
            self._used += cells
            return
        if self._used > self._start:
            self._break()
            piece = [span for span in piece if span.text != _SEPARATOR]
        for span in piece:
            self._add_wrapped(span, width)

    @property
    def _width(self) -> int | None:
        width = self._painter.width
        return None if width is None else width - self.reserve

    def add_text(self, row: Row) -> None:
        """Add the text of *row* behind its lead, cut or wrapped."""
        width, painter = self._painter.width, self._painter
        if width is None:
            self._spans += (Span(row.lead, "dim"), Span(row.text, row.text_style))
            return
        lead = painter.cells(row.lead)
        cells = painter.cells(row.text)
        room = width - self._used - lead
        if cells <= room or (not row.wraps and room >= _MIN_TEXT_CELLS):
            self._spans += (
                Span(row.lead, "dim"),
                Span(painter.fit(row.text, room), row.text_style),
            )
            return
        self._spans.append(Span(row.lead.rstrip(), "dim"))
        room = max(width - len(self._rest), _MIN_CELLS)
        lines = painter.wrap(row.text, room) if row.wraps else [painter.fit(row.text, room)]
        for text in lines:
            self._break()
            self._spans.append(Span(text, row.text_style))

    def end(self) -> None:
        """Write what is there."""
        self._painter.line(self._spans)

    def _add_wrapped(self, span: Span, width: int) -> None:
        room = width - self._used
        if room < _MIN_CELLS and self._used > self._start:
            self._break()
            room = width - self._used
        room = max(min(room, width - len(self._rest)), _MIN_CELLS)
        first, *more = self._painter.wrap(span.text, room)
        self._append(first, span.style)
        for text in more:
            self._break()
            self._append(text, span.style)

    def _append(self, text: str, style: str) -> None:
        self._spans.append(Span(text, style))
        self._used += self._painter.cells(text)

    def _break(self) -> None:
        self._painter.line(self._spans)
        self._spans = [Span(self._rest, "dim")]
        self._used = self._start = len(self._rest)
