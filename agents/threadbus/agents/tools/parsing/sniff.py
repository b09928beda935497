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
    "an image (PNG, JPEG, GIF, WebP, BMP, TIFF)",
    "a recording (WAV, MP3, M4A, Ogg, FLAC, AAC, AIFF)",
    "a film (MP4, MOV, WebM, Matroska, AVI)",
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
    **dict.fromkeys(
        (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"), DocumentKind.IMAGE
    ),
    **dict.fromkeys(
        (".wav", ".mp3", ".m4a", ".ogg", ".oga", ".opus", ".flac", ".aac", ".aif", ".aiff"),
        DocumentKind.AUDIO,
    ),
    **dict.fromkeys(
        (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ogv", ".3gp"), DocumentKind.VIDEO
    ),
}
_BINARY: Final = {
    DocumentKind.XLSX,
    DocumentKind.DOCX,
    DocumentKind.PPTX,
    DocumentKind.PDF,
    DocumentKind.IMAGE,
    DocumentKind.AUDIO,
    DocumentKind.VIDEO,
}
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
# Start, what stands 4 or 8 bytes later, and what both mean.
_SEEN_AND_HEARD: Final = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", DocumentKind.IMAGE),
    (b"\xff\xd8\xff", 0, b"", DocumentKind.IMAGE),
    (b"GIF87a", 0, b"", DocumentKind.IMAGE),
    (b"GIF89a", 0, b"", DocumentKind.IMAGE),
    (b"RIFF", 8, b"WEBP", DocumentKind.IMAGE),
    (b"BM", 6, b"\0\0\0\0", DocumentKind.IMAGE),
    (b"II*\0", 0, b"", DocumentKind.IMAGE),
    (b"MM\0*", 0, b"", DocumentKind.IMAGE),
    (b"RIFF", 8, b"WAVE", DocumentKind.AUDIO),
    (b"ID3", 0, b"", DocumentKind.AUDIO),
    (b"fLaC", 0, b"", DocumentKind.AUDIO),
    (b"FORM", 8, b"AIF", DocumentKind.AUDIO),
    (b"", 4, b"ftypM4A", DocumentKind.AUDIO),
    (b"OggS", 0, b"", DocumentKind.AUDIO),
    (b"", 4, b"ftyp", DocumentKind.VIDEO),
    (b"\x1aE\xdf\xa3", 0, b"", DocumentKind.VIDEO),
    (b"RIFF", 8, b"AVI ", DocumentKind.VIDEO),
)
# An MP3 or AAC stream without a header begins with the sync of its first frame.
_AUDIO_SYNCS: Final = (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9")
_MAGICS: Final = (
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
        if named.is_heard and found.is_heard:
            return named  # one container holds films and recordings alike
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
    if _is_archive(data):
        return _archive_kind(name, data, named)
    return _seen_or_heard(data)


def _seen_or_heard(data: bytes) -> DocumentKind | None:
    """Return which kind of picture or sound binary content is; None where it is neither."""
    for start, offset, mark, kind in _SEEN_AND_HEARD:
        if data.startswith(start) and data.startswith(mark, offset):
            return kind
    return DocumentKind.AUDIO if data.startswith(_AUDIO_SYNCS) else None


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
