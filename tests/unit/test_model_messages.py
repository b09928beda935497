"""Messages and tool calls: what a model wrote, and what is made of it."""

from __future__ import annotations

import pytest

from threadbus.agents.errors import BadToolArgumentsError, InvalidSettingError
from threadbus.agents.model import ChatMessage, Role, ToolCall, ToolSpec
from threadbus.agents.model.messages import MAX_ARGUMENT_DEPTH
from threadbus.schemas import (
    DataPart,
    TextPart,
    clean_text,
)


def test_arguments_are_parsed() -> None:
    """A JSON object is what a tool gets."""
    assert ToolCall("c1", "add", '{"a": 1, "b": [2.5, null]}').arguments == {
        "a": 1,
        "b": [2.5, None],
    }


@pytest.mark.parametrize("raw", ["", "  ", "{}"])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    """Servers write nothing at all for a tool without parameters."""
    assert ToolCall("c1", "now", raw).arguments == {}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("{'a': 1}", "no JSON"),
        ('{"a": 1', "no JSON"),
        ("[1]", "no JSON object"),
        ("null", "no JSON object"),
        ('"text"', "no JSON object"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested deeper than 56"),
        ('{"a":' * 100_000, "nested too deep"),
        ('{"a": "x\\u0000y"}', "NUL"),
        ('{"a": "\\ud800"}', "no JSON"),
    ],
)
def test_other_arguments_are_an_error_that_quotes_them(raw: str, reason: str) -> None:
    """What is not one usable JSON object is told with its tool, the reason and the text."""
    with pytest.raises(BadToolArgumentsError) as caught:
        _ = ToolCall("c1", "add", raw).arguments

    assert caught.value.tool == "add"
    assert caught.value.arguments == raw
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_deepest_arguments_that_an_event_can_carry_are_taken() -> None:
    """The limit is inclusive."""
    raw = '{"a":' * MAX_ARGUMENT_DEPTH + "1" + "}" * MAX_ARGUMENT_DEPTH

    assert list(ToolCall("c1", "add", raw).arguments) == ["a"]


def test_a_written_backslash_is_no_nul() -> None:
    """Only a NUL character is refused, not text about one."""
    assert ToolCall("c1", "add", r'{"a": "\\u0000"}').arguments == {"a": "\\u0000"}


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("a\0b", "a\ufffdb"),
        ("ünï😀", "ünï😀"),
    ],
)
def test_text_is_made_fit_for_an_event(text: str, cleaned: str) -> None:
    """Halves of one character are joined; what no event can carry becomes U+FFFD."""
    assert clean_text(text) == cleaned


def test_messages_take_parts() -> None:
    """Parts of the bus become text for the model."""
    message = ChatMessage.user((TextPart("Sum of"), DataPart({"a": 1})))

    assert message == ChatMessage(Role.USER, 'Sum of\n{"a":1}')


@pytest.mark.parametrize("name", ["", "read csv", "a" * 65, "größe", "a.b"])
def test_a_tool_name_that_models_refuse_is_refused_here(name: str) -> None:
    """The error names the grammar."""
    with pytest.raises(InvalidSettingError, match="1 to 64 letters"):
        ToolSpec(name)
