"""Every error of replay says what was given and what to do, and survives a pickle."""

import pickle

import pytest

from threadbus.replay import (
    AmbiguousTaskError,
    ExportFileError,
    ExportTargetError,
    FilterValueError,
    NoLogError,
    PriceFileError,
    ReplayError,
    TaskLookupError,
    UnknownFilterError,
    UnknownTaskError,
)

CASES: list[tuple[ReplayError, list[str]]] = [
    (UnknownTaskError("abc", "run.jsonl", ("one  Title",)), ["'abc'", "run.jsonl", "one  Title"]),
    (UnknownTaskError("abc", "nats://x"), ["'abc'", "`bus ask`"]),
    (AmbiguousTaskError("01", ("one", "two")), ["'01'", "one", "two", "more of the id"]),
    (AmbiguousTaskError("", ("one", "two")), ["more than one super-task is there"]),
    (UnknownFilterError("thread", "x", ("main", "y")), ["thread 'x'", "main, y"]),
    (FilterValueError("--from", "x", "a sequence (120)"), ["--from 'x'", "a sequence"]),
    (NoLogError("nats://x:1"), ["nats://x:1", "`bus ask`", "BUS_URL"]),
    (PriceFileError("p.toml", "no such file"), ["'p.toml'", "no such file", "input = 0.15"]),
    (ExportTargetError("r.gz", "it is there"), ["'r.gz'", "it is there"]),
    (
        ExportFileError("run.jsonl", "is a directory"),
        ["'run.jsonl'", "is a directory", "export"],
    ),
]


@pytest.mark.parametrize(("error", "words"), CASES)
def test_a_message_names_value_and_way_out(error: ReplayError, words: list[str]) -> None:
    """What was wrong is in the message, and what helps."""
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize(("error", "words"), CASES)
def test_an_error_survives_a_pickle(error: ReplayError, words: list[str]) -> None:
    """It keeps its type, attributes and message."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - just made here

    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_lookup_errors_have_a_root() -> None:
    """A caller can catch both ways in which an id fails."""
    assert issubclass(UnknownTaskError, TaskLookupError)
    assert issubclass(AmbiguousTaskError, TaskLookupError)
