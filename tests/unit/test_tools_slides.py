"""Presentations: text, tables and notes of each slide, and what cannot be read."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pptx
import pytest
from pptx.util import Inches

from tests.support.tool_files import make_encrypted_office
from threadbus.agents.tools import DocumentKind, DocumentLimits, NamedBytes, read_document
from threadbus.agents.tools.errors import (
    CorruptDocumentError,
    DocumentTooLargeError,
    EncryptedDocumentError,
    WrongExtensionError,
)

LIMITS = DocumentLimits(time=timedelta(seconds=60))


def slides() -> bytes:
    """Make a presentation of three slides."""
    # The library's types do not say which layout has which placeholder.
    made: Any = pptx.Presentation()
    first = made.slides.add_slide(made.slide_layouts[1])
    first.shapes.title.text = "Harbour"
    first.placeholders[1].text = "12 berths, 3 cranes"
    first.notes_slide.notes_text_frame.text = "The fourth crane comes in May."
    second = made.slides.add_slide(made.slide_layouts[6])
    grid = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row, cells in enumerate((("berth", "tons"), ("1", "4,120"))):
        for column, text in enumerate(cells):
            grid.cell(row, column).text = text
    third = made.slides.add_slide(made.slide_layouts[6])
    group = third.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1))
    box.text_frame.text = "inside a group"
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


async def test_every_slide_is_read() -> None:
    """Titles, text, tables, notes and what is grouped."""
    document = await read_document(NamedBytes("talk.pptx", slides()), LIMITS)

    assert document.kind is DocumentKind.PPTX
    assert [section.title for section in document.sections] == [
        "Slide 1: Harbour",
        "Slide 2",
        "Slide 3",
    ]
    assert document.sections[0].text == (
        "12 berths, 3 cranes\n[notes] The fourth crane comes in May."
    )
    assert document.sections[1].tables[0].rows == (("berth", "tons"), ("1", "4,120"))
    assert document.sections[2].text == "inside a group"


async def test_what_cannot_be_read_says_why() -> None:
    """Encrypted, broken, misnamed and over a limit: an error each, never half a document."""
    whole = slides()
    with pytest.raises(EncryptedDocumentError, match="PPTX"):
        await read_document(NamedBytes("talk.pptx", make_encrypted_office()), LIMITS)
    with pytest.raises(CorruptDocumentError):
        await read_document(NamedBytes("talk.pptx", whole[: len(whole) // 2]), LIMITS)
    with pytest.raises(WrongExtensionError):
        await read_document(NamedBytes("talk.docx", whole), LIMITS)
    small = DocumentLimits(unpacked_bytes=1_000, time=timedelta(seconds=60))
    with pytest.raises(DocumentTooLargeError, match="unpacked"):
        await read_document(NamedBytes("talk.pptx", whole), small)


async def test_what_is_over_a_limit_is_told() -> None:
    """Slides that are left out are counted."""
    few = DocumentLimits(sections=1, time=timedelta(seconds=60))
    document = await read_document(NamedBytes("talk.pptx", slides()), few)

    assert len(document.sections) == 1
    assert document.omitted.sections == 2
