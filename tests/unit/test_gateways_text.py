"""Text and JSON that cross a gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadbus.gateways.text import (
    MAX_JSON_ITEMS,
    bounded_text,
    clean_json,
    cut_text,
    escape_line_ends,
)
from threadbus.schemas import MAX_JSON_DEPTH, LimitExceededError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_what_cannot_travel_is_replaced_at_every_level() -> None:
    """Lone surrogates and NUL become U+FFFD in keys and values; pairs become a character."""
    dirty = {"a\x00": ["\ud800", {"k": "\ud83d\ude00"}], "n": 1, "t": True, "z": None}

    assert clean_json(dirty) == {
        "a\ufffd": ["\ufffd", {"k": "\U0001f600"}],
        "n": 1,
        "t": True,
        "z": None,
    }


@given(JSON_VALUES)
def test_any_json_can_be_encoded_once_it_is_clean(value: Any) -> None:
    """Whatever came in, UTF-8 can carry what comes out."""
    json.dumps(clean_json(value), ensure_ascii=False).encode()


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    """The error names the depth and the limit."""
    value: Any = 1
    for _ in range(MAX_JSON_DEPTH):
        value = [value]

    with pytest.raises(LimitExceededError, match=rf"levels of it: {MAX_JSON_DEPTH + 1} is over"):
        clean_json(value, what="it")


def test_json_with_too_many_values_is_refused() -> None:
    """A wide value is bounded as a deep one is."""
    with pytest.raises(LimitExceededError, match="send it as a file"):
        clean_json([0] * MAX_JSON_ITEMS)


def test_text_is_bounded_before_it_is_repaired() -> None:
    """The error says which text, how long it is and how long it may be."""
    assert bounded_text("content", "a\x00", 2) == "a\ufffd"
    with pytest.raises(LimitExceededError, match="content: 3 is over the limit of 2"):
        bounded_text("content", "abc", 2)


def test_a_text_that_is_cut_says_so_and_stays_within_bytes() -> None:
    """The note counts towards the limit, and no character is cut in half."""
    cut = cut_text("ä" * 1000, 300, "read the resource")

    assert len(cut.encode()) <= 300
    assert cut.endswith("[cut: 2,000 bytes in all; read the resource]")
    assert cut.startswith("ää")
    assert cut_text("short", 300) == "short"


def test_escaped_line_ends_mean_the_same_json() -> None:
    """A reader that splits lines as Python does finds one line, and the same text in it."""
    text = json.dumps({"t": "a\u2028b\u2029c\u0085d"}, ensure_ascii=False)
    escaped = escape_line_ends(text)

    assert len(text.splitlines()) > 1
    assert len(escaped.splitlines()) == 1
    assert json.loads(escaped) == json.loads(text)
