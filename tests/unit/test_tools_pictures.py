"""Pictures with text drawn into them, read in the bounded process; and what pictures may not do."""

from __future__ import annotations

import asyncio
import io
import struct
import sys
import zlib
from datetime import timedelta

import pytest
from PIL import Image, ImageDraw, ImageFont

from threadbus.agents.tools import (
    CorruptDocumentError,
    Document,
    DocumentKind,
    DocumentLimits,
    DocumentTimeoutError,
    DocumentTooLargeError,
    MissingExtraError,
    NamedBytes,
    read_document,
)
from threadbus.agents.tools.parsing import worker
from threadbus.agents.tools.parsing.model import Parsed, Problem, Refusal
from threadbus.agents.tools.parsing.sniff import document_kind

LINES = ("Invoice 2041", "Total: 1,250 EUR")


def drawn(lines: tuple[str, ...], background: str = "white", ink: str = "black") -> Image.Image:
    image = Image.new("RGB", (400, 300), background)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=36)
    for number, line in enumerate(lines):
        pen.text((30, 30 + 70 * number), line, fill=ink, font=font)
    return image


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def read(name: str, content: bytes, limits: DocumentLimits | None = None) -> Document:
    return asyncio.run(read_document(NamedBytes(name, content), limits or DocumentLimits()))


def parse(content: bytes, limits: DocumentLimits | None = None) -> Parsed:
    """Read in this process, which loads the models once."""
    parsed = worker.parse(DocumentKind.IMAGE, content, limits or DocumentLimits())
    assert isinstance(parsed, Parsed)
    return parsed


def test_the_text_of_a_picture_is_read() -> None:
    """What stands in a picture becomes lines, and the reader is told that a program read it."""
    document = read("scan.png", saved(drawn(LINES), "PNG"))
    assert document.kind is DocumentKind.IMAGE
    assert document.sections[0].text == "\n".join(LINES)
    assert document.notes == ("PNG, 400 by 300 pixels; text was recognised by a program",)


@pytest.mark.parametrize("kind", ["BMP", "WEBP"])
def test_every_kind_of_picture_is_read(kind: str) -> None:
    """The name does not matter, nor the kind."""
    content = saved(drawn(LINES, "#e8e0ff", "#101060"), kind)
    assert document_kind("scan.png", content) is DocumentKind.IMAGE
    assert parse(content).sections[0].text == "\n".join(LINES)


def test_pictures_are_read_as_a_person_sees_them() -> None:
    """Pages of a TIFF in order, one frame of an animation, turned as the camera says, on white."""
    pages = [drawn(("First sheet",)), drawn(("Second sheet",))]
    tiff = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    parsed = parse(tiff)
    assert [(one.title, one.text) for one in parsed.sections] == [
        ("Page 1", "First sheet"),
        ("Page 2", "Second sheet"),
    ]

    gif = saved(pages[0], "GIF", save_all=True, append_images=pages[1:])
    parsed = parse(gif)
    assert [one.text for one in parsed.sections] == ["First sheet"]
    assert "it has 2 frames; only the first one is read" in parsed.notes

    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    turned = pages[0].transpose(Image.Transpose.ROTATE_90)
    parsed = parse(saved(turned, "JPEG", exif=exif, quality=95))
    assert [one.text for one in parsed.sections] == ["First sheet"]

    clear = Image.new("RGBA", pages[0].size, (0, 0, 0, 0))
    ImageDraw.Draw(clear).text(
        (30, 30), "On nothing", fill="black", font=ImageFont.load_default(size=36)
    )
    parsed = parse(saved(clear, "PNG"))
    assert [one.text for one in parsed.sections] == ["On nothing"]


def test_a_picture_without_text_says_so() -> None:
    """Nothing to read is told, and is no error."""
    parsed = parse(saved(Image.new("L", (64, 64), 200), "PNG"))
    assert parsed.sections == ()
    assert "no text was found" in parsed.notes


def png_chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def test_a_picture_of_too_many_pixels_is_refused_unread() -> None:
    """A few bytes that claim a huge picture are refused before a pixel is made."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    rows = png_chunk(b"IDAT", zlib.compress(bytes(1000)))
    bomb = b"\x89PNG\r\n\x1a\n" + header + rows + png_chunk(b"IEND", b"")
    with pytest.raises(
        DocumentTooLargeError,
        match=r"10,000,000,000 pixels, over the limit of 40,000,000; .*DocumentLimits\.pixels",
    ):
        read("bomb.png", bomb)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.png", saved(drawn(LINES), "PNG")[:900]),
        ("cut.jpg", saved(drawn(LINES), "JPEG")[:900]),
        ("head.png", b"\x89PNG\r\n\x1a\n" + bytes(50)),
    ],
    ids=["png", "jpg", "head"],
)
def test_a_broken_picture_is_refused(name: str, content: bytes) -> None:
    """A picture that ends too early, or is none, is told with a reason."""
    with pytest.raises(CorruptDocumentError, match=f"'{name}' is not a readable IMAGE document"):
        read(name, content)


def test_reading_a_picture_ends_in_time() -> None:
    """A model that takes too long is ended, and the setting is named."""
    limits = DocumentLimits(model_time=timedelta(milliseconds=100))
    with pytest.raises(DocumentTimeoutError, match=r"0\.1 s; .* DocumentLimits\.model_time"):
        read("scan.png", saved(drawn(LINES), "PNG"), limits)


def test_without_the_extra_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is missing, the message says what to install."""
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    parsed = worker.parse(DocumentKind.IMAGE, saved(drawn(LINES), "PNG"), DocumentLimits())
    assert parsed == Refusal(problem=Problem.MISSING_LIBRARY, reason="rapidocr and onnxruntime")
    told = str(MissingExtraError("scan.png", "image", "rapidocr and onnxruntime"))
    assert told.endswith("needs rapidocr and onnxruntime; pip install 'threadbus[ocr]'")
