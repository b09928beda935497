"""How much a parser may still return, and how much it had to leave out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

from threadbus.agents.tools.parsing.model import (
    DocumentLimits,
    Omitted,
    Parsed,
    Problem,
    Refusal,
    Section,
    Table,
)

_MAX_NOTES: Final = 20
_MAX_NOTE_CHARS: Final = 500
_MAX_TITLE_CHARS: Final = 400
_COUNTING_SHARE: Final = 0.5
"""The share of the time limit after which counting what is left out ends."""


class RefusedError(Exception):
    """A parser cannot return a document; says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def refuse(problem: Problem, reason: str = "") -> NoReturn:
    """End the parser without a document."""
    raise RefusedError(Refusal(problem=problem, reason=reason))


def refuse_size(what: str, value: int, limit: int, setting: str) -> NoReturn:
    """End the parser because there is too much of something; -1 stands for an unknown value."""
    raise RefusedError(
        Refusal(problem=Problem.TOO_LARGE, reason=what, value=value, limit=limit, setting=setting)
    )


class Budget:
    """Takes the text and rows that a parser finds, up to the limits, and counts the rest."""

    def __init__(self, limits: DocumentLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._characters = limits.characters
        self._cells = limits.cells
        self._sections = limits.sections
        self._clock = clock
        self._counting_ends = clock() + limits.time.total_seconds() * _COUNTING_SHARE
        self._kept: list[Section] = []
        self._notes: list[str] = []
        self._lost_sections = self._lost_rows = self._lost_characters = 0
        self._exact = True

    @property
    def is_full(self) -> bool:
        """Whether nothing more will be kept, so that a parser may skip what it can count."""
        return self._characters <= 0 or self._cells <= 0

    @property
    def takes_sections(self) -> bool:
        """Whether another section will be kept."""
        return len(self._kept) < self._sections and not self.is_full

    def may_count(self) -> bool:
        """Tell whether there is time to go on counting what is left out."""
        if self.is_full and self._clock() > self._counting_ends:
            self._exact = False
            return False
        return True

    def text(self, text: str) -> str:
        """Return as much of *text* as may be kept."""
        text = clean(text)
        kept = text[: max(0, self._characters)]
        self._characters -= len(kept)
        self._lost_characters += len(text) - len(kept)
        return kept

    def title(self, title: str) -> str:
        """Return *title* on one line, shortened; titles are bounded by the sections."""
        return " ".join(clean(title[:_MAX_TITLE_CHARS]).split())

    def table(self, rows: Iterable[Sequence[str]]) -> tuple[Table, ...]:
        """Return *rows* as a table as far as they may be kept; none when there is no row."""
        kept: list[tuple[str, ...]] = []
        for row in rows:
            trimmed = _trimmed(row)
            if not trimmed:
                continue
            size = sum(len(cell) for cell in trimmed)
            if self._lost_rows or len(trimmed) > self._cells or size > self._characters:
                self._lost_rows += 1
                # Rows are kept up to the first that does not fit, never around it.
                self._cells = 0
                if not self.may_count():
                    break
                continue
            self._cells -= len(trimmed)
            self._characters -= size
            kept.append(trimmed)
        return (Table(tuple(kept)),) if kept else ()

    def add(self, section: Section) -> None:
        """Keep *section*, whose text and tables were taken by this budget."""
        if not section.text and not section.tables and not section.title:
            return
        if len(self._kept) >= self._sections:
            self._lost_sections += 1
            return
        self._kept.append(section)

    def lose_sections(self, count: int) -> None:
        """Count sections that are left out unread."""
        self._lost_sections += count

    def lose_unknown(self) -> None:
        """Tell that more is left out than is counted."""
        self._exact = False

    def note(self, note: str) -> None:
        """Tell the reader something about how the document was read."""
        note = clean(note[:_MAX_NOTE_CHARS])
        if note not in self._notes and len(self._notes) < _MAX_NOTES:
            self._notes.append(note)

    def parsed(self, title: str = "") -> Parsed:
        """Return everything that was kept."""
        return Parsed(
            title=self.title(title),
            sections=tuple(self._kept),
            notes=tuple(self._notes),
            omitted=Omitted(
                sections=self._lost_sections,
                rows=self._lost_rows,
                characters=self._lost_characters,
                exact=self._exact,
            ),
        )


def clean(text: str) -> str:
    """Return *text* without what JSON cannot carry: lone surrogates and NUL become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _trimmed(row: Sequence[str]) -> tuple[str, ...]:
    end = len(row)
    while end and not row[end - 1].strip():
        end -= 1
    return tuple(clean(cell) for cell in row[:end])
