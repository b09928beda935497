"""Read PDF: the text of each page. Tables come as lines of text, pictures not at all."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from threadbus.agents.tools.parsing.budget import Budget, refuse
from threadbus.agents.tools.parsing.model import Parsed, Problem, Section

if TYPE_CHECKING:
    from pypdf import PdfReader

_PAGES_IN_NOTE: Final = 10


def parse_pdf(data: bytes, budget: Budget) -> Parsed:
    """Read each page as a section; tells which pages have no text or cannot be read."""
    import pypdf  # the optional library: its absence is told to the user, see the worker
    from pypdf.errors import DependencyError, PdfReadError

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        # Many documents are encrypted with no password, only to forbid copying.
        if reader.is_encrypted and not reader.decrypt(""):
            refuse(Problem.ENCRYPTED)
        pages = len(reader.pages)
    except DependencyError:  # a cipher that needs one more library
        refuse(Problem.ENCRYPTED)
    except PdfReadError as error:
        refuse(Problem.CORRUPT, str(error))
    without_text: list[int] = []
    for number in range(pages):
        if not budget.takes_sections:
            budget.lose_sections(pages - number)
            break
        text = _page(reader, number, budget)
        if text == "":
            without_text.append(number + 1)
        budget.add(Section(title=f"Page {number + 1}", text=budget.text(text or "")))
    if without_text:
        shown = ", ".join(map(str, without_text[:_PAGES_IN_NOTE]))
        more = ", …" if len(without_text) > _PAGES_IN_NOTE else ""
        budget.note(f"no text on page {shown}{more}: pictures, perhaps a scan, are not read")
    return budget.parsed(_title(reader))


def _page(reader: PdfReader, number: int, budget: Budget) -> str | None:
    """Return the text of a page, or None when it cannot be read."""
    try:
        return reader.pages[number].extract_text().strip()
    except MemoryError:
        raise
    except Exception as error:  # what is wrong with one page spares the others
        budget.note(f"page {number + 1} cannot be read: {type(error).__name__}: {error}")
        return None


def _title(reader: PdfReader) -> str:
    try:
        return (reader.metadata.title if reader.metadata else "") or ""
    except MemoryError:
        raise
    except Exception:  # a broken title is no reason to lose the pages
        return ""
