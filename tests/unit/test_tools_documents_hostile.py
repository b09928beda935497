"""Documents that are broken, too much, or mean harm: each is a clear error within its bounds."""

from __future__ import annotations

import asyncio
import io
import random
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.leftovers import processes_in
from tests.support.tool_files import (
    encrypt_pdf,
    make_docx,
    make_encrypted_office,
    make_pdf,
    make_xlsx,
    with_entry,
)
from threadbus.agents.tools import (
    CorruptDocumentError,
    Document,
    DocumentError,
    DocumentLimits,
    DocumentTimeoutError,
    DocumentTooLargeError,
    EmptyDocumentError,
    EncryptedDocumentError,
    NamedBytes,
    UnsupportedDocumentError,
    WrongExtensionError,
    read_document,
)

SHEET = "xl/worksheets/sheet1.xml"
MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
WORD = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep working folders below the test's own folder, and check that nothing stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def read(name: str, content: bytes, limits: DocumentLimits | None = None) -> Document:
    return asyncio.run(read_document(NamedBytes(name, content), limits or DocumentLimits()))


def make_sheet(text: bytes) -> bytes:
    return (
        b'<worksheet xmlns="%s"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>%s</t></is>'
        b"</c></row></sheetData></worksheet>" % (MAIN, text)
    )


def make_text(text: bytes) -> bytes:
    return (
        b'<w:document xmlns:w="%s"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body>'
        b"</w:document>" % (WORD, text)
    )


XLSX = make_xlsx({"Sheet": [["a", "b"], [1, 2]]})
DOCX = make_docx("Heading", "text")
PDF = make_pdf(["text"])


@pytest.mark.parametrize("content", [b"", b"   \n\t\n"])
def test_an_empty_document_is_refused(content: bytes) -> None:
    """Nothing, and nothing but blanks, is told as such."""
    with pytest.raises(EmptyDocumentError, match=r"'nothing.csv' is empty"):
        read("nothing.csv", content)


def test_a_huge_document_is_refused(tmp_path: Path) -> None:
    """A file over the limit is refused by its size, before it is read."""
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(10 * 2**40)
    with pytest.raises(DocumentTooLargeError, match=r"10,995,116,277,760 bytes.* 33,554,432;"):
        asyncio.run(read_document(path, roots=[tmp_path]))
    path.unlink()
    with pytest.raises(DocumentTooLargeError, match=r"101 bytes, over the limit of 100; .*file_b"):
        read("large.txt", b"x" * 101, DocumentLimits(file_bytes=100))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("secret.pdf", encrypt_pdf(PDF, "password")),
        ("secret.xlsx", make_encrypted_office()),
        ("secret.docx", make_encrypted_office()),
    ],
)
def test_an_encrypted_document_is_refused(name: str, content: bytes) -> None:
    """A document with a password is told as such, with the way out."""
    kind = name.partition(".")[2].upper()
    with pytest.raises(EncryptedDocumentError, match=f"'{name}' is an encrypted {kind}"):
        read(name, content)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("report.docx", PDF, "PDF"),
        ("report.pdf", DOCX, "DOCX"),
        ("report.csv", XLSX, "XLSX"),
        ("report.xlsx", DOCX, "DOCX"),
        ("report.xlsx", b"a,b\n1,2\n", "plain text"),
        ("report.pdf", b"<html><p>Please log in", "HTML"),
        ("report.csv", b"\n<!DOCTYPE html><p>Please log in", "HTML"),
        ("report.txt", XLSX, "XLSX"),
        ("picture.png", PDF, "PDF"),
        ("report.pdf", b"GIF89a" + bytes(20), "IMAGE"),
        ("picture.jpg", b"ID3\x04" + bytes(50), "AUDIO"),
        ("talk.mp3", b"Please log in", "plain text"),
    ],
)
def test_a_wrong_extension_is_told(name: str, content: bytes, found: str) -> None:
    """The content counts: a file that is something else is not read as what it is called."""
    with pytest.raises(WrongExtensionError, match=f"its content is {found}"):
        read(name, content)


def make_archive(*names: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("table.csv", b"\x1f\x8b\x08" + random.Random(1).randbytes(50), "gzip-compressed data"),
        ("noise.txt", bytes(range(256)) * 20, "binary data"),
        ("noise", random.Random(2).randbytes(5000), "binary data"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "Office document of before"),
        ("sheet.ods", make_archive("mimetype", "content.xml"), "OpenDocument"),
        ("files.zip", make_archive("a.txt"), "a ZIP archive"),
        ("book.xlsx", make_archive("a.txt"), "a ZIP archive"),
    ],
)
def test_an_unknown_kind_is_refused(name: str, content: bytes, found: str) -> None:
    """What cannot be read is told by what it is, with the kinds that can."""
    with pytest.raises(UnsupportedDocumentError, match=f"{found}.*convert it to one of CSV"):
        read(name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.xlsx", XLSX[: len(XLSX) // 2]),
        ("cut.docx", DOCX[: len(DOCX) // 2]),
        ("cut.pdf", b"%PDF-1.4\n1 0 obj\n<< /Type"),
        ("noise.pdf", b"%PDF-1.7\n" + random.Random(3).randbytes(2000)),
        ("broken.xlsx", with_entry(XLSX, "xl/workbook.xml", b"<not closed")),
        ("broken.docx", with_entry(DOCX, "word/document.xml", b"<w:document")),
        ("no-parts.docx", make_archive("word/document.xml")),
        ("broken.json", b'{"a": 1,}'),
        ("lone-quote.csv", b'a,b\n"' + b"x" * 2_000_000),
    ],
)
def test_a_corrupt_document_is_refused(name: str, content: bytes) -> None:
    """Content that breaks the rules of its kind is told with a reason."""
    with pytest.raises(CorruptDocumentError, match=f"'{name}' is not a readable"):
        read(name, content)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    """An archive that unpacks to more than the limit is refused by what it claims."""
    bomb = with_entry(XLSX, SHEET, b" " * (40 * 2**20))
    assert len(bomb) < 2**20
    with pytest.raises(DocumentTooLargeError, match=r"41,9\d\d,\d+ bytes unpacked.* 33,554,432;"):
        read("bomb.xlsx", bomb, DocumentLimits(unpacked_bytes=32 * 2**20))
    many = with_entry(DOCX, "extra", b"")
    with pytest.raises(DocumentTooLargeError, match="files inside, over the limit of 5;"):
        read("many.docx", many, DocumentLimits(archive_entries=5))


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    """An entry that unpacks to more than it claims is cut off by the library, and corrupt."""
    bomb = bytearray(with_entry(XLSX, SHEET, b" " * (20 * 2**20)))
    real = struct.pack("<I", 20 * 2**20)
    assert bomb.count(real) == 2
    bomb = bomb.replace(real, struct.pack("<I", 1000))
    with pytest.raises(CorruptDocumentError):
        read("bomb.xlsx", bytes(bomb), DocumentLimits(unpacked_bytes=2**20))


def test_entities_do_not_explode() -> None:
    """The billion laughs are not expanded, neither in a sheet nor in a text."""
    laughs = b"".join(
        b'<!ENTITY l%d "%s">' % (level, b"&l%d;" % (level - 1) * 10) for level in range(1, 12)
    )
    start = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">' + laughs + b"]>"
    for name, archive in (
        ("laughs.xlsx", with_entry(XLSX, SHEET, start + make_sheet(b"a&l11;b"))),
        ("laughs.docx", with_entry(DOCX, "word/document.xml", start + make_text(b"a&l11;b"))),
    ):
        try:
            document = read(name, archive)
        except DocumentError:
            continue
        assert len(document.render()) < 1000


def test_a_document_that_needs_too_much_memory_is_refused() -> None:
    """The parser runs out of its own memory, not of the agent's."""
    sheet = make_sheet(b"x" * (60 * 2**20))
    limits = DocumentLimits(memory_bytes=96 * 2**20)
    with pytest.raises(DocumentTooLargeError, match=r"memory.*over the limit of 100,663,296;"):
        read("strings.xlsx", with_entry(XLSX, SHEET, sheet), limits)


def test_a_document_that_takes_too_long_is_refused() -> None:
    """A sheet that claims a cell far below has no end; the parser does."""
    far = (
        b'<worksheet xmlns="%s"><sheetData><row r="1000000000000"><c r="A1000000000000"><v>1</v>'
        b"</c></row></sheetData></worksheet>" % MAIN
    )
    limits = DocumentLimits(time=timedelta(seconds=1.5))
    with pytest.raises(DocumentTimeoutError, match=r"'far.xlsx' was not read within 1.5 s"):
        read("far.xlsx", with_entry(XLSX, SHEET, far), limits)


def test_nested_json_is_refused() -> None:
    """Nesting over the limit is told, however deep, and up to it is read."""
    with pytest.raises(DocumentTooLargeError, match="nesting at least, over the limit of 100;"):
        read("deep.json", b"[" * 1_000_000)
    with pytest.raises(DocumentTooLargeError):
        read("deep.json", b'{"a":' * 101 + b"1" + b"}" * 101)
    assert read("flat.json", b"[" * 100 + b"]" * 100).sections


def test_a_claimed_size_of_a_sheet_hides_no_rows() -> None:
    """Rows beyond the size that a sheet claims are read."""
    with zipfile.ZipFile(io.BytesIO(XLSX)) as archive:
        sheet = archive.read(SHEET)
    assert b'<dimension ref="A1:B2"' in sheet
    lying = with_entry(XLSX, SHEET, sheet.replace(b'ref="A1:B2"', b'ref="A1:A1"'))
    assert read("book.xlsx", lying).sections[0].tables[0].rows == (("a", "b"), ("1", "2"))


def test_tracked_changes_are_read_as_accepted() -> None:
    """Inserted text is read, deleted text is not, and the reader is told."""
    with zipfile.ZipFile(io.BytesIO(DOCX)) as archive:
        xml = archive.read("word/document.xml")
    start, end = xml.rindex(b"<w:r>"), xml.rindex(b"</w:r>") + len(b"</w:r>")
    changed = (
        xml[:start]
        + b'<w:ins w:id="1" w:author="a"><w:r><w:t>new</w:t></w:r></w:ins>'
        + b'<w:del w:id="2" w:author="a"><w:r><w:delText>old</w:delText></w:r></w:del>'
        + xml[end:]
    )
    document = read("changed.docx", with_entry(DOCX, "word/document.xml", changed))
    assert document.sections[0].text == "new"
    assert document.notes == ("tracked changes are read as if accepted",)


def test_one_broken_page_spares_the_others() -> None:
    """A page that cannot be read is told, and the rest is read."""
    document = make_pdf(["first", "second"])
    broken = document.replace(b"/Contents 4 0 R", b"/Contents 1 0 R")
    read_back = read("pages.pdf", broken)
    assert read_back.sections[-1].text == "second"
    assert any("page 1" in note for note in read_back.notes)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_cancelled_reading_is_gone_when_the_cancellation_returns(temporary: Path) -> None:
    """Cancellation ends the parser and removes its files before it is passed on."""
    far = (
        b'<worksheet xmlns="%s"><sheetData><row r="1000000000000"/></sheetData></worksheet>' % MAIN
    )
    source = NamedBytes("far.xlsx", with_entry(XLSX, SHEET, far))

    async def cancel() -> None:
        task = asyncio.create_task(read_document(source))
        # The warden, its init, and the parser.
        await eventually(lambda: len(processes_in(temporary)) == 3, "the parser started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert processes_in(temporary) == []

    asyncio.run(cancel())
