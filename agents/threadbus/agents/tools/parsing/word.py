"""Read DOCX: text under its headings, tables, headers and footers.

Tracked changes are read as if accepted. The body is walked as XML, since python-docx passes over
inserted text and content controls.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, cast

from threadbus.agents.tools.parsing.archive import check_archive
from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Section, Table

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MC: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_P: Final = f"{_W}p"
_TABLE: Final = f"{_W}tbl"
_ROW: Final = f"{_W}tr"
_CELL: Final = f"{_W}tc"
_VALUE: Final = f"{_W}val"
_UNREAD: Final = {f"{_W}del", f"{_W}moveFrom", f"{_W}pPr", f"{_W}rPr", f"{_MC}Fallback"}
_AS_TEXT: Final = {
    f"{_W}tab": "\t",
    f"{_W}br": "\n",
    f"{_W}cr": "\n",
    f"{_W}noBreakHyphen": "-",
}
_HEADING_STYLES: Final = ("Title", "Heading ")
_MARGINS: Final = ("header", "footer")
_MARGIN_KINDS: Final = ("", "first_page_", "even_page_")
_MAX_SPAN: Final = 64
_NOTED: Final = (
    (f"{_W}ins", "tracked changes are read as if accepted"),
    (f"{_W}del", "tracked changes are read as if accepted"),
    (f"{_W}footnoteReference", "footnotes are not read"),
    (f"{_W}endnoteReference", "endnotes are not read"),
    ("{http://schemas.openxmlformats.org/drawingml/2006/picture}pic", "pictures are not read"),
)


class _Node(Protocol):
    """An element of XML, as lxml has it."""

    tag: object
    text: str | None

    def get(self, name: str) -> str | None: ...
    def find(self, path: str) -> _Node | None: ...
    def iterchildren(self) -> Iterator[_Node]: ...
    def iter(self, *tags: str) -> Iterator[_Node]: ...


class _HasBody(Protocol):
    body: _Node


class _Part(Protocol):
    element: _Node


class _Margin(Protocol):
    """A header or footer."""

    is_linked_to_previous: bool

    @property
    def part(self) -> _Part: ...


def parse_docx(data: bytes, budget: Budget, limits: DocumentLimits) -> Parsed:
    """Read the body, one section for each heading, then the headers and footers."""
    import docx  # the optional library: its absence is told to the user, see the worker

    check_archive(data, limits)
    document = docx.Document(io.BytesIO(data))
    styles = {style.style_id: style.name or "" for style in document.styles}
    body = cast("_HasBody", document.element).body
    writer = _Writer(budget, styles)
    for block in _below(body, _P, _TABLE):
        writer.take(block)
    writer.end_section()
    for tag, note in _NOTED:
        if next(body.iter(tag), None) is not None:
            budget.note(note)
    for title, text in _margins(document.sections):
        budget.add(Section(title=title, text=budget.text(text)))
    return budget.parsed(document.core_properties.title or writer.title)


class _Writer:
    """Gathers the paragraphs and tables below one heading after the other."""

    def __init__(self, budget: Budget, styles: dict[str, str]) -> None:
        self.title = ""
        self._budget = budget
        self._styles = styles
        self._heading = ""
        self._text: list[str] = []
        self._tables: list[Table] = []
        self._has_content = False

    def take(self, block: _Node) -> None:
        if block.tag == _TABLE:
            self._has_content = True
            if self._budget.takes_sections:
                self._text.append("[table]")
                self._tables += self._budget.table(_rows(block))
            return
        text = _text(block).strip()
        if not text:
            return
        if self._style(block).startswith(_HEADING_STYLES):
            self.end_section()
            self._heading = text
            self.title = self.title or text
        self._has_content = True
        if text != self._heading:
            self._text.append(text)

    def _style(self, paragraph: _Node) -> str:
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return self._styles.get(style.get(_VALUE) or "", "") if style is not None else ""

    def end_section(self) -> None:
        """Hand on what was gathered since the last heading."""
        if self._budget.takes_sections:
            self._budget.add(
                Section(
                    title=self._budget.title(self._heading),
                    text=self._budget.text("\n".join(self._text)),
                    tables=tuple(self._tables),
                )
            )
        elif self._has_content:
            self._budget.lose_sections(1)
        self._heading, self._text, self._tables, self._has_content = "", [], [], False


def _below(node: _Node, *tags: str) -> Iterator[_Node]:
    """Yield the nearest elements with one of *tags*, whatever wraps them."""
    for child in node.iterchildren():
        if child.tag in tags:
            yield child
        elif child.tag not in _UNREAD:
            yield from _below(child, *tags)


def _text(node: _Node) -> str:
    return "".join(_pieces(node))


def _pieces(node: _Node) -> Iterator[str]:
    for child in node.iterchildren():
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in _AS_TEXT:
            yield _AS_TEXT[str(child.tag)]
        elif child.tag not in _UNREAD:
            yield from _pieces(child)
            if child.tag == _P:  # a paragraph inside: a text box, or a cell
                yield "\n"


def _rows(table: _Node) -> Iterator[list[str]]:
    for row in _below(table, _ROW):
        cells: list[str] = []
        for cell in _below(row, _CELL):
            merged = cell.find(f"{_W}tcPr/{_W}vMerge")
            goes_on = merged is not None and merged.get(_VALUE) != "restart"
            cells.append("" if goes_on else _text(cell).strip())
            cells += [""] * (_span(cell) - 1)
        yield cells


def _span(cell: _Node) -> int:
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    value = (span.get(_VALUE) or "") if span is not None else ""
    return min(int(value), _MAX_SPAN) if value.isascii() and value.isdigit() else 1


def _margins(sections: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield the title and text of every header and footer, the same one only once."""
    seen: set[tuple[str, str]] = set()
    for section in sections:
        for margin in _MARGINS:
            for kind in _MARGIN_KINDS:
                part = cast("_Margin", getattr(section, f"{kind}{margin}"))
                if part.is_linked_to_previous:
                    continue
                found = (margin.capitalize(), _text(part.part.element).strip())
                if found[1] and found not in seen:
                    seen.add(found)
                    yield found
