"""What a document is once it is read, and what its parser may use."""

from __future__ import annotations

import enum
from datetime import timedelta

import msgspec


class DocumentKind(enum.Enum):
    """The kinds of document that are read."""

    CSV = "csv"
    TSV = "tsv"
    XLSX = "xlsx"
    DOCX = "docx"
    PPTX = "pptx"
    PDF = "pdf"
    JSON = "json"
    HTML = "html"
    PAGE = "page"
    """HTML from the web: its main text and its links."""
    MARKDOWN = "markdown"
    TEXT = "text"
    IMAGE = "image"
    """A picture: the text in it."""
    AUDIO = "audio"
    """A recording: what is said."""
    VIDEO = "video"
    """A film: what is said."""

    @property
    def is_heard(self) -> bool:
        """Whether it is sound that is read: as a transcript."""
        return self in {DocumentKind.AUDIO, DocumentKind.VIDEO}

    @property
    def needs_model(self) -> bool:
        """Whether a model reads it, which takes more time and memory than a parser."""
        return self is DocumentKind.IMAGE or self.is_heard


class DocumentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What reading one document may use and return."""

    file_bytes: int = 32 * 1024 * 1024
    """Size of the file."""
    unpacked_bytes: int = 256 * 1024 * 1024
    """Content of an XLSX, DOCX or PPTX file once it is unpacked."""
    archive_entries: int = 4096
    """Files inside an XLSX, DOCX or PPTX file."""
    depth: int = 100
    """Levels of nesting in JSON."""
    memory_bytes: int = 1024 * 1024 * 1024
    """Address space of the parser."""
    time: timedelta = timedelta(seconds=30)
    """Wall time of the parser."""
    sections: int = 200
    """Pages, sheets or headed sections that are returned."""
    cells: int = 50_000
    """Table cells that are returned, all tables together."""
    characters: int = 400_000
    """Characters that are returned, text and cells together."""
    pixels: int = 40_000_000
    """Width times height of a picture, also of one in a scanned page."""
    duration: timedelta = timedelta(minutes=30)
    """How much of a recording or film is heard, from its beginning; at most 6 hours."""
    model_time: timedelta = timedelta(minutes=5)
    """Wall time where a model reads: pictures, scanned pages, recordings and films."""
    model_memory_bytes: int = 3 * 1024 * 1024 * 1024
    """Address space there."""


class Table(msgspec.Struct, frozen=True):
    """Rows of cells as a person would read them; rows may differ in length."""

    rows: tuple[tuple[str, ...], ...]


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page, a sheet, or what stands under one heading."""

    title: str = ""
    text: str = ""
    tables: tuple[Table, ...] = ()


class Omitted(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a document was left out, because a limit was reached."""

    sections: int = 0
    rows: int = 0
    characters: int = 0
    """Of text and cells in the sections that were read."""
    exact: bool = True
    """False when counting ended early: there is more than these numbers say."""

    def __bool__(self) -> bool:
        return bool(self.sections or self.rows or self.characters or not self.exact)

    def marker(self) -> str:
        """Return ``[truncated: …]`` with what was left out, or ``""`` when nothing was."""
        if not self:
            return ""
        counts = (
            (self.sections, "sections, pages or sheets"),
            (self.rows, "table rows"),
            (self.characters, "characters"),
        )
        parts = [f"{count:,} {what}" for count, what in counts if count] or ["an unknown part"]
        least = "" if self.exact else "at least "
        return f"[truncated: {least}{', '.join(parts)} left out]"


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document as text and tables."""

    name: str
    kind: DocumentKind
    title: str = ""
    size: int
    """Bytes of the file."""
    sha256: str
    """Of the file, so that a reader can tell which version was read."""
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know about how it was read: formulas without results, scanned pages."""
    omitted: Omitted = Omitted()

    @property
    def truncated(self) -> bool:
        """Whether a limit left something out."""
        return bool(self.omitted)

    def render(self) -> str:
        """Return the document as Markdown for a model: headings, text, tables, what is missing."""
        lines = [f"# {self.title or self.name} ({self.name}, {self.kind.value})", ""]
        for note in self.notes:
            lines += [f"Note: {note}", ""]
        for section in self.sections:
            if section.title:
                lines += [f"## {section.title}", ""]
            if section.text:
                lines += [section.text, ""]
            for table in section.tables:
                lines += [*_markdown(table), ""]
        if self.omitted:
            lines.append(self.omitted.marker())
        return "\n".join(lines).rstrip() + "\n"


class Parsed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="parsed"):
    """What a parser returns."""

    title: str = ""
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    omitted: Omitted = Omitted()
    pieces: tuple[str, ...] = ()
    """The WAV files that sound was written to."""
    scans: tuple[int, ...] = ()
    """Pages of a PDF that hold pictures and no text, from 1: perhaps scanned."""


class Problem(enum.Enum):
    """Why a parser returned nothing."""

    ENCRYPTED = "encrypted"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    MISSING_LIBRARY = "missing_library"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refusal"):
    """What a parser returns instead of a document."""

    problem: Problem
    reason: str = ""
    """For ``TOO_LARGE`` what there is too much of, for ``MISSING_LIBRARY`` its name."""
    value: int = 0
    limit: int = 0
    setting: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser is asked to do."""

    path: str
    kind: DocumentKind
    limits: DocumentLimits
    base: str = ""
    """The address of a page, which its links are relative to."""
    pieces: int = 0
    """Over 0: sound becomes at most so many WAV files in the folder of *path*, and no text."""
    scans: bool = False
    """Of a PDF, read the text in the pictures of pages that have no other."""

    @property
    def needs_model(self) -> bool:
        """Whether a model reads it."""
        return self.scans or self.kind.needs_model


def _markdown(table: Table) -> list[str]:
    width = max((len(row) for row in table.rows), default=0)
    lines = [_markdown_row(row, width) for row in table.rows]
    if lines:
        lines.insert(1, "|" + " --- |" * width)
    return lines


def _markdown_row(row: tuple[str, ...], width: int) -> str:
    cells = [" ".join(cell.replace("|", "\\|").split()) for cell in row]
    return "| " + " | ".join(cells + [""] * (width - len(row))) + " |"
