"""Read the text and the tables of HTML; scripts, styles and markup are left out."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import Parsed, Section
from threadbus.agents.tools.parsing.text import decode

_UNREAD: Final = {"script", "style", "template", "noscript", "svg", "head"}
_HEADINGS: Final = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS: Final = {
    *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside"),
    *("ul", "ol", "li", "dl", "dt", "dd", "pre", "blockquote", "br", "hr", "form", "figure"),
}


def parse_html(data: bytes, budget: Budget) -> Parsed:
    """Read HTML as one section for each heading."""
    reader = _Reader(budget)
    reader.feed(decode(data, budget))
    reader.close()
    reader.end_section()
    return budget.parsed(reader.title)


class _Reader(HTMLParser):
    """Collects the text of one section and the rows of the outermost table at a time."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._budget = budget
        self._heading = ""
        self._text: list[str] = []
        self._rows: list[list[str]] = []
        self._tables: list[list[list[str]]] = []
        self._unread: list[str] = []
        self._in_title = False
        self._in_heading = False
        self._tables_open = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        elif tag == "body":  # a head need not be closed
            self._unread.clear()
        elif tag in _UNREAD:
            self._unread.append(tag)
        elif tag == "table":
            self._tables_open += 1
        elif self._tables_open:
            self._start_in_table(tag)
        elif tag in _HEADINGS:
            self.end_section()
            self._in_heading = True
        elif tag in _BLOCKS:
            self._text.append("\n")

    def _start_in_table(self, tag: str) -> None:
        # Cells of a table inside a cell stay text of that cell.
        if self._tables_open > 1:
            self._put(" ")
        elif tag == "tr" or (tag in {"td", "th"} and not self._rows):
            self._rows.append([])
        if self._tables_open == 1 and tag in {"td", "th"}:
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _UNREAD:
            if tag in self._unread:
                del self._unread[self._unread.index(tag) :]
        elif tag == "table" and self._tables_open:
            self._tables_open -= 1
            if not self._tables_open and self._rows:
                self._tables.append(self._rows)
                self._rows = []
        elif tag in _HEADINGS:
            self._in_heading = False
        elif tag in _BLOCKS and not self._tables_open:
            self._text.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._unread:
            self._put(data)

    def _put(self, data: str) -> None:
        if self._in_heading:
            self._heading += data
        elif not self._tables_open:
            self._text.append(data)
        elif self._rows and self._rows[-1]:
            self._rows[-1][-1] += data

    def end_section(self) -> None:
        """Hand on what was read since the last heading."""
        if self._rows:  # a table that was never closed
            self._tables.append(self._rows)
        lines = (" ".join(line.split()) for line in "".join(self._text).split("\n"))
        text = "\n".join(line for line in lines if line)
        if self._budget.takes_sections:
            tables = [self._budget.table(map(_cells, rows)) for rows in self._tables]
            self._budget.add(
                Section(
                    title=self._budget.title(self._heading),
                    text=self._budget.text(text),
                    tables=tuple(table for found in tables for table in found),
                )
            )
        elif text or self._tables or self._heading:
            self._budget.lose_sections(1)
        self._heading, self._text, self._rows, self._tables = "", [], [], []


def _cells(row: list[str]) -> list[str]:
    return [" ".join(cell.split()) for cell in row]
