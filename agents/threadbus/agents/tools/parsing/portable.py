"""Read PDF: the text of each page. Tables come as lines of text.

Pages that hold pictures and no text are perhaps scanned. They are told; where they are asked for,
the text in their pictures is recognised as that of any picture (:mod:`.picture`).
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import msgspec

from threadbus.agents.tools.parsing.budget import Budget, refuse
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Problem, Section
from threadbus.agents.tools.parsing.picture import (
    MAX_PAGES,
    TIME_SHARE,
    Picture,
    load_engine,
    load_pillow,
    text_in,
)

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

_PAGES_IN_NOTE: Final = 10
_MAX_PICTURES: Final = 20
"""Pictures of one page that are read."""
_MAX_FORMS: Final = 3
"""Forms that a picture may lie in."""
_MAX_OBJECTS: Final = 500
"""Pictures and forms of one page that are looked at: forms may hold one another."""


def parse_pdf(
    data: bytes, budget: Budget, limits: DocumentLimits, *, scans: bool = False
) -> Parsed:
    """Read each page as a section; tells which pages have no text or cannot be read."""
    import pypdf  # the optional library: its absence is told to the user, see the worker
    from pypdf.errors import DependencyError, PdfReadError

    recognising = _Recognising(budget, limits) if scans else None
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
    scanned: list[int] = []
    for number in range(pages):
        if not budget.takes_sections:
            budget.lose_sections(pages - number)
            break
        text = _page(reader, number, budget)
        if text == "" and _pictures(reader.pages[number]):
            if recognising is None:
                scanned.append(number + 1)
            else:
                text = recognising.page(reader.pages[number], number + 1)
        elif text == "":
            without_text.append(number + 1)
        budget.add(Section(title=f"Page {number + 1}", text=budget.text(text or "")))
    if without_text:
        budget.note(f"no text on page {_listed(without_text)}; drawings are not read")
    if recognising is not None:
        recognising.tell()
    parsed = budget.parsed(_title(reader))
    return msgspec.structs.replace(parsed, scans=tuple(scanned))


def scans_note(pages: Sequence[int], reason: str) -> str:
    """Say which pages are perhaps scanned, and why the text in their pictures is not there."""
    return f"page {_listed(pages)}: pictures and no text, perhaps a scan; not read: {reason}"


def _listed(pages: Sequence[int]) -> str:
    shown = ", ".join(map(str, pages[:_PAGES_IN_NOTE]))
    return f"{shown}, …" if len(pages) > _PAGES_IN_NOTE else shown


def _page(reader: PdfReader, number: int, budget: Budget) -> str | None:
    """Return the text of a page, or None when it cannot be read."""
    try:
        return reader.pages[number].extract_text().strip()
    except MemoryError:
        raise
    except Exception as error:  # what is wrong with one page spares the others
        budget.note(f"page {number + 1} cannot be read: {type(error).__name__}: {error}")
        return None


class _Named(Protocol):
    """A dictionary of a PDF."""

    def get(self, key: str, default: object = None) -> object: ...


_Path: TypeAlias = tuple[str, ...]
"""Where a picture is: its name, behind those of the forms that it lies in."""


def _pictures(page: PageObject) -> dict[_Path, int]:
    """Return the pictures of a page, with how many pixels each claims to have."""
    found: dict[_Path, int] = {}
    try:
        _walk(cast("_Named", page), (), found, iter(range(_MAX_OBJECTS)))
    except MemoryError:
        raise
    except Exception:  # a page with broken resources has no more pictures that could be read
        return found
    return found


def _walk(holder: _Named, path: _Path, found: dict[_Path, int], left: Iterator[int]) -> None:
    resources = cast("_Named", _there(holder.get("/Resources")))
    objects = cast("_Named", _there(resources.get("/XObject")))
    for name in cast("dict[str, object]", objects):
        if len(found) > _MAX_PICTURES or next(left, None) is None:
            return
        one = cast("_Named", _there(objects.get(name)))
        kind = one.get("/Subtype")
        if kind == "/Image":
            found[*path, name] = _size(one, "/Width") * _size(one, "/Height")
        elif kind == "/Form" and len(path) < _MAX_FORMS:
            _walk(one, (*path, name), found, left)


def _there(value: object) -> object:
    """Return what an indirect reference leads to."""
    return getattr(value, "get_object", lambda: value)() or {}


def _size(picture: _Named, key: str) -> int:
    value = _there(picture.get(key))
    return max(0, value) if isinstance(value, int) else 0


class _Recognising:
    """Reads the pictures of pages without text, within the limits."""

    def __init__(self, budget: Budget, limits: DocumentLimits) -> None:
        # Their absence is told to the user, see the worker.
        load_pillow()
        load_engine()
        self._budget = budget
        self._limits = limits
        self._ends = time.monotonic() + limits.model_time.total_seconds() * TIME_SHARE
        self._found: list[int] = []
        self._empty: list[int] = []
        self._left: list[int] = []

    def page(self, page: PageObject, number: int) -> str:
        """Return the text in the pictures of a page; what cannot be read is noted."""
        read = len(self._found) + len(self._empty)
        if read >= MAX_PAGES or (read and time.monotonic() > self._ends):
            self._left.append(number)
            return ""
        pictures = _pictures(page)
        if len(pictures) > _MAX_PICTURES:
            self._budget.note(f"page {number}: only {_MAX_PICTURES} of its pictures are read")
        said = [
            self._picture(page, path, pixels, number)
            for path, pixels in list(pictures.items())[:_MAX_PICTURES]
        ]
        text = "\n".join(filter(None, said))
        (self._found if text else self._empty).append(number)
        return text

    def _picture(self, page: PageObject, path: _Path, pixels: int, number: int) -> str:
        # What it claims is looked at before a pixel is made.
        if not 0 < pixels <= self._limits.pixels:
            self._budget.note(
                f"page {number}: a picture of {pixels:,} pixels is not read; the limit is "
                f"{self._limits.pixels:,} (DocumentLimits.pixels)"
            )
            return ""
        try:
            # A mapping for whoever asks by name; its type knows only of numbers and texts.
            named = cast("Mapping[object, object]", page.images)[path if path[1:] else path[0]]
            image = cast("Picture | None", getattr(named, "image", None))
            if image is None:
                return ""
            return text_in(image.rotate(-int(page.rotation), expand=True))
        except MemoryError:
            raise
        except Exception as error:  # what is wrong with one picture spares the others
            self._budget.note(
                f"page {number}: a picture cannot be read: {type(error).__name__}: {error}"
            )
            return ""

    def tell(self) -> None:
        """Note what was read by a program, what was empty and what was left out."""
        if self._found:
            self._budget.note(
                f"the text of page {_listed(self._found)} was recognised by a program"
            )
        if self._empty:
            self._budget.note(f"no text was found in the pictures of page {_listed(self._empty)}")
        if self._left:
            self._budget.note(
                scans_note(self._left, f"more than {MAX_PAGES} pages, or no time was left")
            )


def _title(reader: PdfReader) -> str:
    try:
        return (reader.metadata.title if reader.metadata else "") or ""
    except MemoryError:
        raise
    except Exception:  # a broken title is no reason to lose the pages
        return ""
