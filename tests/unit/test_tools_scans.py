"""PDFs whose pages are pictures: their text is recognised, or it is told why not."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pypdf
import pytest
from PIL import Image, ImageDraw, ImageFont
from pypdf.generic import (
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    StreamObject,
)

from tests.support.tool_files import make_pdf
from threadbus.agents.tools import (
    Document,
    DocumentKind,
    DocumentLimits,
    NamedBytes,
    read_document,
)
from threadbus.agents.tools.parsing import worker
from threadbus.agents.tools.parsing.model import Parsed
from threadbus.agents.tools.process import bounded

LINES = ("Invoice 2041", "Total: 1,250 EUR")
TEXT = "\n".join(LINES)


def drawn(lines: Sequence[str], mode: str = "RGB") -> Image.Image:
    """Draw lines of text."""
    image = Image.new("RGB", (400, 300), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=36)
    for number, line in enumerate(lines):
        pen.text((30, 30 + 70 * number), line, fill="black", font=font)
    return image.convert(mode)


def scan(*pages: Image.Image) -> bytes:
    """Return a PDF whose pages are pictures and nothing else."""
    file = io.BytesIO()
    pages[0].save(file, "PDF", save_all=True, append_images=pages[1:])
    return file.getvalue()


def joined(*documents: bytes, turn: int = 0) -> bytes:
    """Return the pages of PDFs in one, the last document turned."""
    writer = pypdf.PdfWriter()
    for number, document in enumerate(documents, 1):
        for page in pypdf.PdfReader(io.BytesIO(document)).pages:
            added = writer.add_page(page)
            if number == len(documents):
                added.rotate(turn)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def read(content: bytes, limits: DocumentLimits | None = None) -> Document:
    """Read a PDF as an agent does."""
    return asyncio.run(read_document(NamedBytes("scan.pdf", content), limits or DocumentLimits()))


def recognised(content: bytes, limits: DocumentLimits | None = None) -> Parsed:
    """Read a PDF with its pictures in this process, which loads the models once."""
    parsed = worker.parse(DocumentKind.PDF, content, limits or DocumentLimits(), scans=True)
    assert isinstance(parsed, Parsed), parsed
    return parsed


def test_a_scanned_page_is_read_beside_one_with_text() -> None:
    """Each page is in its place, and the reader is told which one a program recognised."""
    document = read(joined(make_pdf(["typed"]), scan(drawn(LINES))))
    assert [(one.title, one.text) for one in document.sections] == [
        ("Page 1", "typed"),
        ("Page 2", TEXT),
    ]
    assert document.notes == ("the text of page 2 was recognised by a program",)


@pytest.mark.parametrize("mode", ["1", "L", "CMYK"])
def test_scans_of_each_kind_are_read(mode: str) -> None:
    """As faxes, in grey and as printers have them."""
    assert [one.text for one in recognised(scan(drawn(LINES, mode))).sections] == [TEXT]


def test_a_turned_page_is_read_as_it_is_shown() -> None:
    """A page that was scanned on its side, and says so."""
    turned = scan(drawn(LINES).transpose(Image.Transpose.ROTATE_90))
    assert [one.text for one in recognised(joined(turned, turn=90)).sections] == [TEXT]


def part(holder: object, *names: str) -> Any:
    """Return what lies in a dictionary of a PDF, whose types say little."""
    found: Any = holder
    for name in names:
        found = found[name].get_object()
    return found


def changed(writer: pypdf.PdfWriter) -> bytes:
    """Return what a writer holds as a file."""
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_a_picture_in_a_form_is_read() -> None:
    """Some scanners wrap each page once more."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(scan(drawn(LINES))))
    page = writer.pages[0]
    form = DecodedStreamObject()
    form.set_data(part(page, "/Contents").get_data())
    form[NameObject("/Subtype")] = NameObject("/Form")
    form[NameObject("/Resources")] = part(page, "/Resources")
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/XObject"): DictionaryObject({NameObject("/Fm0"): form})}
    )
    assert [one.text for one in recognised(changed(writer)).sections] == [TEXT]


def only_picture(writer: pypdf.PdfWriter) -> Any:
    """Return the picture of the first page."""
    pictures = part(writer.pages[0], "/Resources", "/XObject")
    (name,) = pictures
    return part(pictures, name)


def test_a_picture_that_claims_too_many_pixels_spares_the_others() -> None:
    """It is told with the limit, unread; the next page is read."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(scan(drawn(("Huge",)), drawn(LINES))))
    only_picture(writer)[NameObject("/Width")] = NumberObject(10_000_000)
    parsed = recognised(changed(writer))

    assert [one.text for one in parsed.sections] == ["", TEXT]
    told = "3,000,000,000 pixels is not read; the limit is 40,000,000"
    assert any(told in note for note in parsed.notes)


def test_a_broken_picture_spares_the_others() -> None:
    """What cannot be decoded is told with its page."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(scan(drawn(("Cut",)), drawn(LINES))))
    only_picture(writer)._data = b"\xff\xd8 no picture"
    parsed = recognised(changed(writer))

    assert [one.text for one in parsed.sections] == ["", TEXT]
    assert any(note.startswith("page 1: a picture cannot be read") for note in parsed.notes)


def test_forms_that_hold_themselves_do_not_hold_the_reader() -> None:
    """A page of forms within forms without end is told as one without pictures."""
    writer: Any = pypdf.PdfWriter()
    page = writer.add_blank_page(300, 300)
    form: Any = StreamObject()
    form._data = b""
    form[NameObject("/Subtype")] = NameObject("/Form")
    kept = writer._add_object(form)
    within = DictionaryObject({NameObject(f"/F{number}"): kept for number in range(400)})
    form[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): within})
    page[NameObject("/Resources")] = form["/Resources"]
    assert read(changed(writer)).notes == ("no text on page 1; drawings are not read",)


def test_pages_without_anything_are_told() -> None:
    """A page that is empty is no scan, and a picture without text is read in vain."""
    empty = pypdf.PdfWriter()
    empty.add_blank_page(FloatObject(200), FloatObject(200))
    assert read(changed(empty)).notes == ("no text on page 1; drawings are not read",)
    assert (
        "no text was found in the pictures of page 1"
        in recognised(scan(Image.new("L", (64, 64), 200))).notes
    )


def test_without_the_extra_the_rest_is_read_and_the_command_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pages with text are there, and a note says what to install for the others."""
    entry = "import sys; sys.modules['PIL'] = None\n" + vars(bounded)["_ENTRY"]
    monkeypatch.setattr(bounded, "_ENTRY", entry)
    document = read(joined(make_pdf(["typed"]), scan(drawn(LINES))))

    assert [one.text for one in document.sections] == ["typed", ""]
    (note,) = document.notes
    assert note.startswith("page 2: pictures and no text, perhaps a scan; not read: ")
    assert note.endswith("needs rapidocr and onnxruntime; pip install 'threadbus[ocr]'")


def test_scans_that_take_too_long_leave_the_text() -> None:
    """The model is ended, the pages with text stay, and the setting is named."""
    content = joined(make_pdf(["typed"]), scan(drawn(LINES)))
    document = read(content, DocumentLimits(model_time=timedelta(milliseconds=100)))
    assert [one.text for one in document.sections] == ["typed", ""]
    (note,) = document.notes
    assert note.startswith("page 2: pictures and no text, perhaps a scan; not read: ")
    assert "DocumentLimits.model_time" in note
