"""Errors: each is caught by its root, survives pickling, and has the numbers in its message."""

from __future__ import annotations

import pickle

import pytest

import threadbus.schemas
from threadbus.schemas import (
    InvalidIdError,
    InvalidNameError,
    InvalidSubjectError,
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    NotJsonError,
    SchemaError,
    SubjectMismatchError,
    ThreadbusError,
    shorten,
)

EXAMPLES: dict[type[SchemaError], tuple[SchemaError, str]] = {
    InvalidIdError: (
        InvalidIdError("event id", "0199B2F0-4C00-7A31-B2C3-D4E5F6071829"),
        "event id '0199B2F0-4C00-7A31-B2C3-D4E5F6071829' is not an id: an id is 32 lower-case hex "
        "digits, the last 16 not all zero (a UUIDv7 without dashes); "
        "'0199b2f04c007a31b2c3d4e5f6071829' would do",
    ),
    InvalidNameError: (
        InvalidNameError("agent name", "Web\nAgent", "web-agent-1"),
        "agent name 'Web\\nAgent' is not valid: 1 to 63 characters, a-z, 0-9, '_' and '-', "
        "starting with a letter or digit; 'web-agent-1' would do",
    ),
    InvalidTextError: (
        InvalidTextError("the title", 0xD800, 7),
        "the title holds U+D800 (a lone surrogate) at character 7: remove it (clean_text does), "
        "or send the bytes as a file part",
    ),
    InvalidSubjectError: (
        InvalidSubjectError("bus.x", "it has 2 tokens, at least 5 are needed"),
        "subject 'bus.x' is not valid: it has 2 tokens, at least 5 are needed; the form is "
        "bus.<task>.<thread>.<class>.<sender>[.<mention>…]",
    ),
    NotJsonError: (
        NotJsonError("message.posted.data.parts[0].data", "nan", "send null or a string"),
        "message.posted.data.parts[0].data is nan, which JSON cannot carry as it is: "
        "send null or a string",
    ),
    LimitExceededError: (
        LimitExceededError("bytes of one event", 2_000_000, 1_048_576, "attach it"),
        "bytes of one event: 2,000,000 is over the limit of 1,048,576; attach it",
    ),
    MalformedEventError: (
        MalformedEventError("it is not UTF-8", "{\\xff"),
        "not a valid event: it is not UTF-8 (starts with '{\\xff')",
    ),
    SubjectMismatchError: (
        SubjectMismatchError("sender", "web", "coder"),
        "subject and body disagree: sender is 'web' in the subject and 'coder' in the body; "
        "both must be the same",
    ),
}


def test_every_error_has_an_example() -> None:
    """A new leaf must be added here, and every leaf is exported."""
    leaves = set(SchemaError.__subclasses__())

    assert leaves == set(EXAMPLES)
    assert {leaf.__name__ for leaf in leaves} <= set(threadbus.schemas.__all__)


@pytest.mark.parametrize(
    ("error", "message"),
    EXAMPLES.values(),
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "message",
)
def test_an_error_says_what_is_wrong_and_survives_pickling(
    error: SchemaError, message: str
) -> None:
    """The message has the value, the limit and the way out; a copy is the same error."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert str(error) == message == str(copy)
    assert type(copy) is type(error)
    assert vars(copy) == vars(error) != {}


@pytest.mark.parametrize("root", [ThreadbusError, SchemaError, ValueError])
@pytest.mark.parametrize(
    "error", [error for error, _ in EXAMPLES.values()], ids=lambda error: type(error).__name__
)
def test_an_error_is_caught_by_its_roots(error: SchemaError, root: type[Exception]) -> None:
    """The root of the project, that of the folder, and ValueError all catch it."""
    with pytest.raises(root):
        raise error


def test_messages_stay_short_whatever_the_value() -> None:
    """A megabyte of foreign text makes a line, without control characters."""
    huge = "\x1b[31m" + "x" * 1_000_000
    errors = [
        InvalidIdError("event id", huge),
        InvalidNameError("agent name", huge),
        InvalidSubjectError(huge, "wrong"),
        MalformedEventError(huge, huge),
        SubjectMismatchError("sender", huge, huge),
        LimitExceededError("digits", 10**4000, 1, "stop"),
    ]

    for error in errors:
        assert len(str(error)) < 1000
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        ("plain", 80, "plain"),
        ("刘备 🚀", 80, "刘备 🚀"),
        ("a\nb\x1b", 80, "a\\nb\\x1b"),
        ("\u202eabc", 80, "\\u202eabc"),
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("", 80, ""),
    ],
    ids=lambda value: ascii(value),
)
def test_shorten_makes_any_text_fit_a_message(value: str, limit: int, shown: str) -> None:
    """Printable text is left alone, the rest is escaped, and what is too long is cut."""
    assert shorten(value, limit) == shown
