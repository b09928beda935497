"""Read PPTX: one section for each slide, with its text, tables and notes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, cast

from threadbus.agents.tools.parsing.archive import check_archive
from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Section, Table

_MAX_NESTING: Final = 20
_GROUP: Final = 6
"""The kind of a shape that holds shapes."""


class _Cell(Protocol):
    text: str


class _Row(Protocol):
    cells: Iterable[_Cell]


class _Grid(Protocol):
    rows: Iterable[_Row]


class _Frame(Protocol):
    text: str


class _Shape(Protocol):
    """A shape, as python-pptx has it."""

    has_text_frame: bool
    text_frame: _Frame
    has_table: bool
    table: _Grid
    has_chart: bool
    shape_type: int | None
    shapes: Iterable[_Shape]


def parse_pptx(data: bytes, budget: Budget, limits: DocumentLimits) -> Parsed:
    """Read the slides in their order; pictures and charts are told of and not read."""
    import pptx  # the optional library: its absence is told to the user, see the worker

    check_archive(data, limits)
    presentation = pptx.Presentation(io.BytesIO(data))
    for number, slide in enumerate(presentation.slides, 1):
        if not budget.takes_sections:
            budget.lose_sections(1)
            continue
        title = slide.shapes.title
        name = title.text_frame.text if title is not None and title.has_text_frame else ""
        texts, tables = _content(cast("Iterable[_Shape]", slide.shapes), budget)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            said = slide.notes_slide.notes_text_frame.text.strip()
            texts += [f"[notes] {said}"] if said else []
        texts = [text for text in texts if text != name.strip()]
        budget.add(
            Section(
                title=budget.title(f"Slide {number}: {name}" if name else f"Slide {number}"),
                text=budget.text("\n".join(texts)),
                tables=tuple(tables),
            )
        )
    return budget.parsed(presentation.core_properties.title)


def _content(shapes: Iterable[_Shape], budget: Budget) -> tuple[list[str], list[Table]]:
    texts: list[str] = []
    tables: list[Table] = []
    for shape in _flat(shapes, 0):
        if shape.has_text_frame and shape.text_frame.text.strip():
            texts.append(shape.text_frame.text.strip())
        elif shape.has_table:
            texts.append("[table]")
            tables += budget.table([c.text for c in row.cells] for row in shape.table.rows)
        elif shape.has_chart:
            budget.note("charts are not read")
    return texts, tables


def _flat(shapes: Iterable[_Shape], depth: int) -> Iterator[_Shape]:
    for shape in shapes:
        if shape.shape_type == _GROUP:
            if depth < _MAX_NESTING:
                yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape
