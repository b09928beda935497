"""The page about York names tests that exist, for each of the seven requirements."""

from __future__ import annotations

import re

import pytest

from tests.support.tree import ROOT

PAGE = (ROOT / "docs" / "york.md").read_text(encoding="utf-8")
ROWS = {
    match[1]: re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", match[0])
    for match in re.finditer(r"^\| (R\d) \|.*$", PAGE, re.MULTILINE)
}


def test_every_requirement_has_a_row() -> None:
    """R1 to R7, in order, each once."""
    assert list(ROWS) == [f"R{number}" for number in range(1, 8)]


@pytest.mark.parametrize("row", ROWS)
def test_each_requirement_is_shown_by_tests_that_exist(row: str) -> None:
    """A test that was renamed is renamed on the page, too."""
    assert ROWS[row]
    for path, name in ROWS[row]:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{path}::{name}"
