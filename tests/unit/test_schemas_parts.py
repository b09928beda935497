"""Parts and text: what content becomes, and how it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadbus.schemas import (
    MAIN_THREAD,
    MAX_NOTE_CHARS,
    MAX_WORD_CHARS,
    AgentName,
    DataPart,
    ErrorInfo,
    FilePart,
    HandlingFailed,
    MessagePosted,
    ReferencePart,
    TextPart,
    as_parts,
    clean_text,
    decode_event,
    encode_event,
    make_event,
    new_task_id,
    text_of,
)

REFERENCE = ReferencePart("9f86d081" * 8, 2048, media_type="application/pdf")


def test_content_becomes_parts() -> None:
    """A string is one text part, a part is itself, a sequence is a tuple."""
    text, data = TextPart("a"), DataPart({"b": 1})

    assert as_parts("a") == (text,)
    assert as_parts("") == (TextPart(""),)
    assert as_parts(data) == (data,)
    assert as_parts([text, data]) == (text, data)
    assert as_parts(()) == ()


def test_text_of_shows_every_kind_of_part() -> None:
    """Text as it is, data as JSON, files and references by name, type and size."""
    parts = (
        TextPart("Total:"),
        DataPart({"north": 1204, "ü": None}),
        FilePart(b"a,b\n", name="a.csv", media_type="text/csv"),
        FilePart(b""),
        REFERENCE,
        ReferencePart("0" * 64, 1, name="notes", of="text", media_type="text/plain"),
    )

    assert text_of(parts).split("\n") == [
        "Total:",
        '{"north":1204,"ü":null}',
        "[file a.csv, text/csv, 4 bytes]",
        "[file unnamed, application/octet-stream, 0 bytes]",
        "[file 9f86d0819f86, application/pdf, 2048 bytes]",
        "[text notes, text/plain, 1 bytes]",
    ]
    assert text_of(()) == ""


@pytest.mark.parametrize("part", [TextPart("x"), DataPart(None), FilePart(b"x"), REFERENCE])
def test_parts_are_frozen(part: TextPart | DataPart | FilePart | ReferencePart) -> None:
    """What was said cannot be changed."""
    with pytest.raises(AttributeError, match="immutable"):
        part.media_type = "text/html"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@given(st.text(st.characters()), st.integers(0, 30) | st.none())
def test_clean_text_always_travels(text: str, limit: int | None) -> None:
    """Whatever it holds, the result can be sent and is no longer than the limit."""
    cleaned = clean_text(text, limit)
    event = make_event(
        MessagePosted(parts=as_parts(cleaned)),
        task=new_task_id(),
        thread=MAIN_THREAD,
        sender=AgentName("a"),
    )

    assert decode_event(encode_event(event)) == event
    assert limit is None or len(cleaned) <= limit
    assert clean_text(cleaned, limit) == cleaned


def test_clean_text_says_what_it_changed() -> None:
    """A replaced character and a cut end can be seen; text that is fine is left alone."""
    assert clean_text("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert clean_text("héllo 🚀\n", 8) == "héllo 🚀\n"
    assert clean_text("\ud83d\ude80 \ude80\ud83d") == "🚀 \ufffd\ufffd"
    assert clean_text("\ud83d" + "\ude80", 1) == "🚀"
    assert clean_text("abcdef", 4) == "abc…"
    assert clean_text("abc", 0) == ""


def test_any_exception_can_be_recorded() -> None:
    """Its message is made fit: a failure must not fail to be recorded."""
    error = RuntimeError("bad \0 input \udcff " + "x" * MAX_NOTE_CHARS)
    huge = type("E" * 400, (Exception,), {})

    info = ErrorInfo.of(error)
    event = make_event(
        HandlingFailed(error=info),
        task=new_task_id(),
        thread=MAIN_THREAD,
        sender=AgentName("a"),
    )

    assert decode_event(encode_event(event)) == event
    assert info.kind == "RuntimeError"
    assert info.message.startswith("bad \ufffd input \ufffd x")
    assert len(info.message) == MAX_NOTE_CHARS
    assert len(ErrorInfo.of(huge()).kind) == MAX_WORD_CHARS
