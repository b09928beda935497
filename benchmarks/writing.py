"""Tables that a run puts between two marks of a page, so that nobody writes them by hand."""

from __future__ import annotations

from pathlib import Path


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of *name* in a page.

    Raises:
        SystemExit: the page has no such marks.
    """
    begin, end = f"<!-- measured: {name} -->", f"<!-- end: {name} -->"
    before = page.read_text(encoding="utf-8")
    head, found, rest = before.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no line {begin} with {end} behind it")
    page.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}", encoding="utf-8")
