"""Build real documents for the tests of the tools, good and hostile ones."""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import docx
import pypdf


class _Sheet(Protocol):
    title: str
    sheet_state: str

    def append(self, row: Sequence[object]) -> None: ...


class _Workbook(Protocol):
    active: _Sheet

    def create_sheet(self, title: str) -> _Sheet: ...
    def remove(self, sheet: _Sheet) -> None: ...
    def save(self, file: io.BytesIO) -> None: ...


class _Openpyxl(Protocol):
    def Workbook(self) -> _Workbook: ...  # noqa: N802 -- the library's name


def make_xlsx(sheets: Mapping[str, Sequence[Sequence[object]]], hidden: str = "") -> bytes:
    """Return a workbook with *sheets*, the one called *hidden* hidden."""
    library = cast("_Openpyxl", importlib.import_module("openpyxl"))
    workbook = library.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        if title == hidden:
            sheet.sheet_state = "hidden"
        for row in rows:
            sheet.append(row)
    saved = io.BytesIO()
    workbook.save(saved)
    return saved.getvalue()


def with_entry(archive: bytes, name: str, content: bytes) -> bytes:
    """Return *archive* with the entry *name* replaced by *content*."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as source,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for entry in source.namelist():
            if entry != name:
                target.writestr(entry, source.read(entry))
        target.writestr(name, content)
    return written.getvalue()


def make_docx(heading: str, text: str) -> bytes:
    """Return a report with one paragraph under one heading."""
    document = docx.Document()
    document.add_heading(heading, 1)
    document.add_paragraph(text)
    saved = io.BytesIO()
    document.save(saved)
    return saved.getvalue()


def make_pdf(pages: Sequence[str], *, copies: int = 1) -> bytes:
    """Return a PDF with one line of text on each page, all of it *copies* times."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    contents: list[int] = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET\n".encode("latin-1") if text else b""
        objects.append(b"<< /Length %d >>\nstream\n%sendstream" % (len(stream), stream))
        contents.append(len(objects))
    kids: list[int] = []
    for content in contents * copies:
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % content
        )
        kids.append(len(objects))
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (listed, len(kids))
    parts = [b"%PDF-1.4\n"]
    offsets: list[int] = []
    size = len(parts[0])
    for number, written in enumerate(objects, 1):
        offsets.append(size)
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, written))
        size += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts += [b"%010d 00000 n \n" % offset for offset in offsets]
    parts.append(b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1))
    parts.append(b"startxref\n%d\n%%%%EOF\n" % size)
    return b"".join(parts)


def encrypt_pdf(document: bytes, password: str) -> bytes:
    """Return *document* encrypted, with *password* needed to open it."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(document))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")  # noqa: S106
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def make_encrypted_office() -> bytes:
    """Return the start of the container that Office wraps an encrypted document in.

    A header and a first sector of directory entries, as the format of compound files has them.
    """
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + b"\x3e\x00\x03\x00\xfe\xff\x09\x00"
    entries = b"".join(
        name.encode("utf-16-le").ljust(128, b"\0")
        for name in ("Root Entry", "EncryptedPackage", "EncryptionInfo")
    )
    return header.ljust(512, b"\0") + entries.ljust(512, b"\0")
