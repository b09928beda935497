"""The sequence diagram says who said what to whom, and no text can break it."""

from __future__ import annotations

import re

import pytest

from tests.support.golden import assert_golden
from tests.support.hostile import ATTACKS, hostile_timeline, long_run, revenue_with_findings
from tests.support.runs import troubled_run
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.replay.forms.mermaid import MAX_CHARS, MAX_MESSAGES, safe

TEXT = r"(?:[^#;:%{}$&<>\"`\\]|#\d+;|<br/>)+"
LINE = re.compile(
    "  (?:"
    + "|".join(
        (
            f"title {TEXT}",
            rf"(?:actor|participant) p\d+ as {TEXT}",
            rf"p\d+(?:->>|-->>|--x|-\))p\d+: {TEXT}",
            rf"Note over p\d+(?:,p\d+)?: {TEXT}",
            r"(?:de)?activate p\d+",
            r"rect rgba\([\d., ]+\)",
            "end",
        )
    )
    + ")"
)


def diagram(timeline: Timeline) -> str:
    """Return the diagram of a run."""
    return "".join(FORMS["mermaid"](timeline, FormOptions(now=timeline.last_at)))


def check(text: str) -> list[str]:
    """Check every line against what the language has, and that what begins also ends."""
    first, *lines = text.splitlines()
    assert first == "sequenceDiagram"
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    active: dict[str, int] = {}
    boxes = 0
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "activate":
            active[rest] = active.get(rest, 0) + 1
        elif word == "deactivate":
            active[rest] -= 1
            assert active[rest] >= 0
        elif word in ("rect", "end"):
            boxes += 1 if word == "rect" else -1
            assert boxes in (0, 1)
    assert boxes == 0
    assert set(active.values()) <= {0}
    return lines


def test_a_run_looks_as_it_did() -> None:
    """A whole run, with findings at their steps."""
    text = diagram(revenue_with_findings())

    check(text)
    assert_golden("replay/forms/revenue.mermaid", text)


@pytest.mark.parametrize("timeline", [hostile_timeline(), fold(troubled_run().log)])
def test_no_text_is_anything_but_text(timeline: Timeline) -> None:
    """Whatever agents wrote, each line is one statement of the language."""
    lines = check(diagram(timeline))

    assert any("pwned" in line for line in lines) or any("evil" in line for line in lines)


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_keeps_its_characters(attack: str) -> None:
    """What an entity stands for is what was written, control characters aside."""
    shown = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), safe(attack))

    assert re.sub(r"\\[xu][0-9a-f]{2,4}|\s", "", shown) == re.sub(
        r"[\u202e\u2066\u2069\u2028\u2029\ufeff\x1b]|\s", "", attack
    )


def test_a_long_run_is_cut_and_says_so() -> None:
    """Viewers draw no more than so much; the last note says what is missing and where it is."""
    text = diagram(fold(long_run(4_000).log))

    lines = check(text)
    assert len(text) < MAX_CHARS + 5_000
    assert sum("->>" in line or "Note" in line for line in lines) < MAX_MESSAGES + 10
    plain = text.replace("<br/>", " ")
    assert re.search(r"[\d,]+ later steps left out", plain)
    assert "--thread or --agent choose a part" in plain
    assert "--format html" in plain


def test_a_run_without_anything_is_a_diagram() -> None:
    """An empty log gives a diagram that says that there is nothing."""
    assert diagram(fold([])) == "sequenceDiagram\n  title A run without its opening\n"
