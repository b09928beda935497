"""The targets of the fuzzer: with everything they begin with, what once broke them, and chance."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seeds

_SEEDS = {name: list(seeds(name)) for name in TARGETS}
_SNIPPETS = (
    b'"',
    b"\\",
    b"{",
    b"]",
    b"null",
    b"1e999",
    b"-1",
    b"\xff",
    b"\0",
    b".",
    b"\n",
    b"[[[[",
)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_known_breaks_no_target(name: str) -> None:
    """Golden files, and inputs that a fuzzer found, are taken or refused as promised."""
    assert _SEEDS[name] != []
    for seed in _SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40)
@given(data=st.data())
def test_damaged_input_breaks_no_target(name: str, data: st.DataObject) -> None:
    """A known input in which some bytes are cut out and others put in."""
    body = data.draw(st.sampled_from(_SEEDS[name]) | st.binary(max_size=100))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(body)))
        cut = data.draw(st.integers(0, 8))
        body = body[:at] + data.draw(st.sampled_from(_SNIPPETS)) + body[at + cut :]

    TARGETS[name](body)
