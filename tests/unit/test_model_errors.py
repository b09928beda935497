"""Errors of agents: one root, numbers in their messages, and pickling."""

from __future__ import annotations

import pickle

import pytest

from threadbus.agents.errors import (
    AgentError,
    BadToolArgumentsError,
    InvalidSettingError,
    ModelBudgetExceededError,
    ModelOutputTooLargeError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
    PlaybookFormatError,
    PlaybookMissError,
    PlaybookTemplateError,
    ToolRoundsExceededError,
    ToolTimeoutError,
    UnknownToolError,
)
from threadbus.schemas import ThreadbusError

ERRORS = [
    (InvalidSettingError("BUS_X", "0", "it must be 1"), ["BUS_X", "'0'", "it must be 1"]),
    (InvalidSettingError("BUS_X", "", "set it"), ["BUS_X: is not set", "set it"]),
    (ModelRefusedError("host", "m", 401, "bad key"), ["host", "'m'", "401", "OPENAI_API_KEY"]),
    (ModelRefusedError("host", "m", 404, "none"), ["BUS_MODEL", "OPENAI_BASE_URL"]),
    (ModelUnavailableError("host", 3, "HTTP 503: busy"), ["host", "3 attempts", "503: busy"]),
    (ModelUnavailableError("host", 1, "x"), ["after 1 attempt;"]),
    (ModelTimeoutError("host", 2, 1.5, "the deadline"), ["host", "1.5 s", "attempt 2"]),
    (ModelOutputTooLargeError("host", "characters", 1_000), ["1,000 characters"]),
    (ModelBudgetExceededError(2_000, 1_500), ["2,000", "1,500"]),
    (ToolRoundsExceededError(8, ("a", "b")), ["a, b", "round 8 of 8", "max_rounds"]),
    (BadToolArgumentsError("add", "{", "no JSON"), ["'add'", "no JSON", "'{'"]),
    (UnknownToolError("ad", ("add", "sub")), ["'ad'", "add, sub", "did you mean 'add'"]),
    (UnknownToolError("x", ()), ["(none)"]),
    (ToolTimeoutError("add", 1.5), ["'add'", "1.5 s"]),
    (PlaybookFormatError("f.toml", "play 1", "bad"), ["f.toml, play 1: bad"]),
    (PlaybookMissError("f.toml", "a", 1, 2, "hi", "Why."), ["f.toml", "'a'", "step 1", "Why."]),
    (PlaybookTemplateError("f.toml", "play 1", "x", "no"), ["{{ x }}", "f.toml, play 1"]),
]


@pytest.mark.parametrize(("error", "shown"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_shows_what_it_knows_and_survives_pickling(
    error: AgentError, shown: list[str]
) -> None:
    """Its message has the values and the way out; a copy says and holds the same."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert isinstance(error, ThreadbusError)
    for part in shown:
        assert part in str(error)
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
