"""Tell what a file is by its content, and whether its name says the same.

Pure and cheap: looks at the first bytes and, for archives, at the list of names; unpacks nothing.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePath
from typing import Final

from threadbus.agents.tools.errors import (
    CorruptDocumentError,
    EncryptedDocumentError,
    UnsupportedDocumentError,
    WrongExtensionError,
)
from threadbus.agents.tools.parsing.model import DocumentKind

SUPPORTED: Final = (
    "CSV",
    "TSV",
    "XLSX",
    "DOCX",
    "PPTX",
    "PDF",
    "JSON",
    "HTML",
    "Markdown",
    "plain text",
)

_EXTENSIONS: Final = {
    ".csv": DocumentKind.CSV,
    ".tsv": DocumentKind.TSV,
    ".tab": DocumentKind.TSV,
    ".xlsx": DocumentKind.XLSX,
    ".xlsm": DocumentKind.XLSX,
    ".docx": DocumentKind.DOCX,
    ".docm": DocumentKind.DOCX,
    ".pptx": DocumentKind.PPTX,
    ".pptm": DocumentKind.PPTX,
    ".pdf": DocumentKind.PDF,
    ".json": DocumentKind.JSON,
    ".html": DocumentKind.HTML,
    ".htm": DocumentKind.HTML,
    ".xhtml": DocumentKind.HTML,
    ".md": DocumentKind.MARKDOWN,
    ".markdown": DocumentKind.MARKDOWN,
    ".txt": DocumentKind.TEXT,
    ".text": DocumentKind.TEXT,
    ".log": DocumentKind.TEXT,
}
_BINARY: Final = {DocumentKind.XLSX, DocumentKind.DOCX, DocumentKind.PPTX, DocumentKind.PDF}
_ARCHIVE_PARTS: Final = (
    ("xl/workbook.xml", DocumentKind.XLSX),
    ("word/document.xml", DocumentKind.DOCX),
    ("ppt/presentation.xml", DocumentKind.PPTX),
)
_FOREIGN_ARCHIVES: Final = (
    ("xl/workbook.bin", "a binary Excel workbook (XLSB)"),
    ("content.xml", "an OpenDocument file"),
    ("META-INF/container.xml", "an EPUB book"),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_MAGICS: Final = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"ID3", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"fLaC", "a FLAC recording"),
    (b"RIFF", "a WAV recording, an AVI film or a WebP image"),
    (b"\x1aE\xdf\xa3", "a WebM or Matroska film"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"(\xb5/\xfd", "Zstandard-compressed data"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
)
_PDF_HEADER_WITHIN: Final = 1024
_TEXT_SAMPLE: Final = 64 * 1024
_BOMS: Final = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


def document_kind(name: str, data: bytes) -> DocumentKind:
    """Return the kind of the document *name* with the content *data*.

    Raises:
        EncryptedDocumentError: An Office document with a password.
        CorruptDocumentError: An archive that cannot be opened.
        UnsupportedDocumentError: Content of a kind that is not read.
        WrongExtensionError: Content of another kind than the name says.
    """
    extension = PurePath(name).suffix.lower()
    named = _EXTENSIONS.get(extension)
    found = _binary_kind(name, data, named)
    if found is None:
        described = _foreign(data)
        if described:
            raise UnsupportedDocumentError(name, described, SUPPORTED)
        if named in _BINARY:
            raise WrongExtensionError(name, extension, _text_description(data))
        return _text_kind(name, data, extension, named)
    if named is not None and named is not found:
        raise WrongExtensionError(name, extension, f"{found.value.upper()}")
    return found


def _binary_kind(name: str, data: bytes, named: DocumentKind | None) -> DocumentKind | None:
    if b"%PDF-" in data[:_PDF_HEADER_WITHIN] and not _is_archive(data):
        return DocumentKind.PDF
    if data.startswith(_OLE):
        if _OLE_ENCRYPTED in data:
            # Word and Excel wrap an encrypted file in the same container.
            raise EncryptedDocumentError(name, named.value if named in _BINARY else "office")
        raise UnsupportedDocumentError(name, "an Office document of before 2007", SUPPORTED)
    return _archive_kind(name, data, named) if _is_archive(data) else None


def _is_archive(data: bytes) -> bool:
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def _archive_kind(name: str, data: bytes, named: DocumentKind | None) -> DocumentKind:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        kind = named.value if named in _BINARY else "zip"
        raise CorruptDocumentError(name, kind, str(error)) from error
    for part, found in _ARCHIVE_PARTS:
        if part in names:
            return found
    described = next((what for part, what in _FOREIGN_ARCHIVES if part in names), "a ZIP archive")
    raise UnsupportedDocumentError(name, described, SUPPORTED)


def _foreign(data: bytes) -> str:
    """Return what binary content is, or ``""`` when it is text."""
    described = next((what for magic, what in _MAGICS if data.startswith(magic)), "")
    if described or data.startswith(_BOMS):
        return described
    sample = data[:_TEXT_SAMPLE]
    controls = sum(sample.count(bytes([code])) for code in range(32) if code not in _TEXT_CONTROLS)
    return "binary data" if b"\0" in sample or controls * 20 > len(sample) else ""


_TEXT_CONTROLS: Final = frozenset(b"\t\n\v\f\r\x1b")


def _text_kind(name: str, data: bytes, extension: str, named: DocumentKind | None) -> DocumentKind:
    is_html = _looks_like_html(data)
    if named is None:
        return DocumentKind.HTML if is_html else DocumentKind.TEXT
    # What is saved as a table or as JSON but is a web page is mostly a log-in form.
    if is_html and named in {DocumentKind.CSV, DocumentKind.TSV, DocumentKind.JSON}:
        raise WrongExtensionError(name, extension, "HTML")
    return named


def _looks_like_html(data: bytes) -> bool:
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    return start.startswith((b"<!doctype html", b"<html"))


def _text_description(data: bytes) -> str:
    return "HTML" if _looks_like_html(data) else "plain text"
