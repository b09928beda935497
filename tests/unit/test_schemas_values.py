"""Values and text in an event: carried to the bit, or refused with their place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import cast

import pytest

from tests.support.schema_events import body, event, message
from threadbus.schemas import (
    MAX_EVENT_BYTES,
    MAX_JSON_DEPTH,
    DataPart,
    Event,
    FilePart,
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    MessagePosted,
    NotJsonError,
    SchemaError,
    TaskOpened,
    TextPart,
    decode_event,
    encode_event,
)


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        2**63,
        2**64 + 1,
        -(2**63) - 1,
        10**300,
        -(10**4298),
        0.1,
        1e308,
        5e-324,
        -0.0,
        "a\u2028b\u2029c\u0085d\ufeff\U0010ffff\u0001\x7f",
        "\\u0000",
        "",
        None,
        {"": {"": []}},
        {"k\u00e9y\n": "\u202eright to left"},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_data_parts_are_exact(value: object) -> None:
    """Integers beyond 64 bits, odd floats and odd text come back to the bit."""
    (part,) = cast("MessagePosted", decode_event(encode_event(message(value))).data).parts

    assert repr(cast("DataPart", part).data) == repr(value)


def test_a_tuple_is_an_array() -> None:
    """A tuple in a data part arrives as a list, at any depth; nothing else is changed."""
    (part,) = cast(
        "MessagePosted", decode_event(encode_event(message({"a": (1, [(2,)])}))).data
    ).parts

    assert cast("DataPart", part).data == {"a": [1, [[2]]]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "data.parts[0].data is nan, which JSON cannot carry"),
        ({"x": [1, float("inf")]}, "data.parts[0].data.x[1] is inf"),
        ([-float("inf")], "data.parts[0].data[0] is -inf"),
        ({"a b": b"raw"}, "data.parts[0].data['a b'] is bytes"),
        (bytearray(b"raw"), "send them as a file part"),
        ({1: "one"}, "a key of message.posted.data.parts[0].data is 1 (int)"),
        ({"1": 0, 1: 0}, "is 1 (int)"),
        ({1.5: 0}, "is 1.5 (float)"),
        ({None: 0}, "is None (NoneType)"),
        ({b"k": 0}, "(bytes), which JSON cannot carry as it is: make it a string"),
        ({(1, 2): 0}, "(tuple)"),
        ({1, 2}, "of the type set"),
        (Decimal("1.1"), "of the type Decimal"),
        (datetime(2026, 1, 1, tzinfo=UTC), "of the type datetime"),
        (object(), "of the type object"),
        ([{"deep": [1, {"x": object()}]}], "data.parts[0].data[0].deep[1].x is of the type object"),
        (TextPart("x"), "of the type TextPart"),
    ],
    ids=lambda value: ascii(value)[:30].partition(" at 0x")[0],
)
def test_what_json_would_change_is_refused(value: object, words: str) -> None:
    """The error names the path and what to send instead; nothing is sent as something else."""
    with pytest.raises(NotJsonError) as caught:
        encode_event(message(value))

    assert words in str(caught.value)


def test_bytes_in_a_text_field_are_refused() -> None:
    """They would arrive as base64 text."""
    with pytest.raises(NotJsonError, match=r"task\.opened\.data\.title is bytes"):
        encode_event(event(TaskOpened(title=cast("str", b"abc"))))


@pytest.mark.parametrize(
    ("value", "path", "codepoint", "position"),
    [
        ("ab\0", "parts[0].data", 0, 2),
        ({"k": ["x", {"y": "\0"}]}, "parts[0].data.k[1].y", 0, 0),
        ({"a\0": 1}, "a key of", 0, 1),
        ("a\ud800", "message.posted.data.parts[0].data", 0xD800, 1),
        ({"k": ["\udfff"]}, "message.posted.data.parts[0].data.k[0]", 0xDFFF, 0),
        ({"a": 1, "b\udc80": 1}, "a key of message.posted.data.parts[0].data", 0xDC80, 1),
    ],
    ids=ascii,
)
def test_text_that_cannot_travel_is_refused(
    value: object, path: str, codepoint: int, position: int
) -> None:
    """NUL and lone surrogates, in values and keys at any depth, are named with their place."""
    with pytest.raises(InvalidTextError) as caught:
        encode_event(message(value))

    assert path in caught.value.what
    assert (caught.value.codepoint, caught.value.position) == (codepoint, position)
    assert f"U+{codepoint:04X}" in str(caught.value)


@pytest.mark.parametrize(
    ("escapes", "codepoint"),
    [
        (rb"\u0000", 0),
        (rb"\\\u0000", 0),
        (rb"\ud800", 0xD800),
        (rb"\uD83D x", 0xD83D),
        (rb"\udc00", 0xDC00),
        (rb"\ud83d\ude00\ude00", 0xDE00),
        (rb"\ud800\ud83d\ude00", 0xD800),
    ],
    ids=lambda value: ascii(value),
)
def test_escaped_text_that_cannot_travel_is_refused(escapes: bytes, codepoint: int) -> None:
    """What another program escaped is found as well, and a pair of surrogates is none."""
    with pytest.raises(InvalidTextError) as caught:
        decode_event(body(data=...)[:-1] + b',"data":{"parts":[],"x":"' + escapes + b'"}}')

    assert caught.value.codepoint == codepoint


@pytest.mark.parametrize(
    "harmless",
    [rb"\\u0000", rb"\\\\u0000", rb"\ud83d\ude00", rb"\\ud800", r"🚀".encode()],
    ids=ascii,
)
def test_text_that_only_looks_dangerous_is_kept(harmless: bytes) -> None:
    """An escaped backslash before ``u0000`` is plain text."""
    raw = b'{"kind":"text","text":"' + harmless + b'"}'

    decoded = decode_event(body(data=...)[:-1] + b',"data":{"parts":[' + raw + b"]}}")

    assert cast("MessagePosted", decoded.data).parts == (TextPart(json.loads(raw)["text"]),)


def test_depth_is_bounded_at_64() -> None:
    """Brackets in text do not count; the 65th level is refused with both numbers."""
    levels = MAX_JSON_DEPTH - 4
    value: object = "[[[[{{{{" * 100 + '"' + "\\"
    for _ in range(levels):
        value = [value]

    assert decode_event(encode_event(message(value))) == message(value)
    with pytest.raises(LimitExceededError, match="65 is over the limit of 64") as caught:
        encode_event(message([value]))
    assert (caught.value.value, caught.value.limit) == (65, 64)


def test_depth_without_end_is_refused() -> None:
    """A list that holds itself, and a flood of opening brackets, are errors and not a crash."""
    endless: list[object] = []
    endless.append(endless)

    for sent in (message(endless), message({"a": (endless,)})):
        with pytest.raises(LimitExceededError, match="levels of JSON"):
            encode_event(sent)
    for bracket in (b"[", b'{"a":', b'[{"a":"\\"",'):
        with pytest.raises(LimitExceededError, match="levels of JSON"):
            decode_event(bracket * 100_000)


def test_a_body_beyond_any_server_is_refused() -> None:
    """The size is named before anything is decoded."""
    with pytest.raises(LimitExceededError, match=r"67,108,865 is over the limit of 67,108,864"):
        decode_event(b" " * (MAX_EVENT_BYTES + 1))


@pytest.mark.parametrize(
    ("sent", "kind", "words"),
    [
        (event(at=10**5000), LimitExceededError, "digits of message.posted.at: 5,001 is over"),
        (event(v=10**5000), MalformedEventError, "written in version 1"),
        (message([10**5000]), LimitExceededError, "limit of 4,300; send the number as a string"),
        (message({10**5000: 0}), LimitExceededError, "digits of a key of message.posted.data"),
    ],
    ids=["at", "v", "data", "key"],
)
def test_numbers_that_python_will_not_write_are_refused(
    sent: Event, kind: type[SchemaError], words: str
) -> None:
    """More than 4,300 digits are an error of ours, also where the error would show them."""
    with pytest.raises(kind) as caught:
        encode_event(sent)

    assert words in str(caught.value)


def test_files_are_kept_to_the_byte() -> None:
    """Every byte value survives base64."""
    part = FilePart(bytes(range(256)), name="all", media_type="application/x-all")

    decoded = decode_event(encode_event(event(MessagePosted(parts=(part,)))))

    assert cast("MessagePosted", decoded.data).parts == (part,)
