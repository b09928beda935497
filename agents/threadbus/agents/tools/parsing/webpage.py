"""Read a web page: its main text by trafilatura, its tables, and the links that it offers."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.hypertext import parse_html
from threadbus.agents.tools.parsing.model import Parsed, Section
from threadbus.agents.tools.parsing.text import decode

_MAX_LINKS: Final = 200
_MAX_LINK_CHARS: Final = 200
_MIN_TEXT_CHARS: Final = 1


def parse_page(data: bytes, budget: Budget, base: str) -> Parsed:
    """Read the main text of a page and its links; all of its text where there is no main text."""
    import trafilatura  # the optional library: its absence is told to the user, see the worker

    text = decode(data, budget)
    links = _Links(base)
    links.feed(text)
    links.close()
    main = trafilatura.extract(
        text, output_format="markdown", include_tables=True, include_links=False, favor_recall=True
    )
    if main is None or len(main) < _MIN_TEXT_CHARS:
        parse_html(data, budget)
        budget.note("no main text was found; all text of the page is shown")
    else:
        budget.add(Section(text=budget.text(main)))
    if links.rows:
        rows = [("text", "address"), *links.rows]
        budget.add(Section(title="Links", tables=budget.table(rows)))
    return budget.parsed(links.title)


class _Links(HTMLParser):
    """Collects the title of a page and its links, each address once."""

    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.rows: list[tuple[str, str]] = []
        self._base = base
        self._seen: set[str] = set()
        self._address = ""
        self._text: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        if tag == "a":
            self._end_link()
            self._address = dict(attrs).get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag == "a":
            self._end_link()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if self._address:
            self._text.append(data)

    def _end_link(self) -> None:
        address, text = self._address, " ".join("".join(self._text).split())
        self._address, self._text = "", []
        try:
            whole = urljoin(self._base, address).partition("#")[0]
        except ValueError:
            return
        is_web = whole.startswith(("http://", "https://"))
        if address and is_web and whole not in self._seen and len(self.rows) < _MAX_LINKS:
            self._seen.add(whole)
            self.rows.append((text[:_MAX_LINK_CHARS], whole))
