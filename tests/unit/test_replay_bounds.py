"""The ends of a stretch, as a person types them."""

from __future__ import annotations

import pytest

from threadbus.replay import Bound, FilterValueError, parse_bound

S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", Bound("120", seq=120)),
        ("+0ms", Bound("+0ms", offset=0)),
        ("+1.5s", Bound("+1.5s", offset=1_500_000_000)),
        ("+12ms", Bound("+12ms", offset=12_000_000)),
        ("+5m03s", Bound("+5m03s", offset=303 * S)),
        ("+1h02m", Bound("+1h02m", offset=3_720 * S)),
        ("+3d", Bound("+3d", offset=3 * 86_400 * S)),
        ("1970-01-01T00:01", Bound("1970-01-01T00:01", at=60 * S)),
        ("1970-01-01T01:00:00+01:00", Bound("1970-01-01T01:00:00+01:00", at=0)),
        ("1970-01-01T00:00:01.25Z", Bound("1970-01-01T00:00:01.25Z", at=1_250_000_000)),
    ],
)
def test_a_bound_is_a_sequence_or_a_time(text: str, expected: Bound) -> None:
    """What the tree writes in its gutter can be typed as it is."""
    assert parse_bound(text, "--from") == expected


@pytest.mark.parametrize("text", ["x", "-5", "+", "+5", "+1.2.3s", "yesterday", "9" * 70, "1e5"])
def test_anything_else_is_an_error(text: str) -> None:
    """The error names the option, the value and the forms."""
    with pytest.raises(FilterValueError, match=r"--to .* is not a sequence \(120\)"):
        parse_bound(text, "--to")


def test_bounds_of_a_kind_have_an_order() -> None:
    """A sequence and a time have none."""
    assert parse_bound("5", "").is_after(parse_bound("4", ""))
    assert parse_bound("+2s", "").is_after(parse_bound("+1999ms", ""))
    assert not parse_bound("5", "").is_after(parse_bound("+1s", ""))
