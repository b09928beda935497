import json
from pathlib import Path

import pytest

from benchmarks.figures import (
    MARKERS,
    Figure,
    Report,
    Target,
    markdown,
    show,
    write_between_markers,
)

LOAD = (0.5, 0.4, 0.3)


def report(*figures: Figure) -> Report:
    """Return a report as a run would."""
    return Report(figures, LOAD, LOAD, at="2026-11-30T10:00:00+00:00", python="3.11.7", cores=2)


FASTER = Figure("append", "plain", "/s", [90, 200, 110], [100, 100, 100], Target(0.85, True))
SLOWER = Figure("trip", "plain", "µs", [140, 150, 130], [100, 100, 100], Target(1.35))
INFORMAL = Figure("other", "plain", "µs", [100], [100])


def test_a_ratio_is_taken_within_a_round() -> None:
    """The median is that of the ratios, so a slow round slows both sides."""
    figure = Figure("trip", "plain", "µs", [10, 400, 11], [10, 200, 10])

    assert figure.ratios == [1.0, 2.0, 1.1]
    assert figure.median == 1.1


def test_rounds_come_in_pairs() -> None:
    """A measurement without its other side is a mistake of the benchmark."""
    with pytest.raises(ValueError, match="shorter"):
        _ = Figure("trip", "plain", "µs", [1, 2], [1]).ratios


def test_a_target_is_a_floor_or_a_ceiling() -> None:
    """A rate has to reach its target, a time to stay below it."""
    assert (FASTER.verdict, SLOWER.verdict, INFORMAL.verdict) == ("met", "missed", "")
    assert [str(Target(0.85, True)), str(Target(1.35))] == ["≥ 0.85", "≤ 1.35"]
    assert Target(1.35).is_met_by(1.35)


def test_a_person_sees_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has both sides in their unit, the ratio, its spread and the verdict."""
    show(report(FASTER, SLOWER, INFORMAL))

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        *("append", "plain", "110", "/s", "100", "/s", "1.10", "0.90", "2.00", "≥", "0.85", "met"),
    ]
    assert lines[-1] == "2 cores, Python 3.11.7, load 0.5 before and 0.5 after"


def test_the_documentation_gets_ratios_only() -> None:
    """No figure of the machine gets into the page."""
    text = markdown(report(FASTER, SLOWER, INFORMAL))

    assert "| append | plain | 1.10 | 0.90 to 2.00 | ≥ 0.85 (met) |" in text
    assert "| other | plain | 1.00 | 1.00 to 1.00 |  |" in text
    assert "µs" not in text
    assert "110" not in text


def test_json_has_every_measurement() -> None:
    """A program finds the measurements of each round and what came of them."""
    found = json.loads(report(SLOWER).as_json())

    assert found["load_before"] == [0.5, 0.4, 0.3]
    (figure,) = found["figures"]
    assert figure["ours"] == [140, 150, 130]
    assert figure["median"] == 1.4
    assert figure["verdict"] == "missed"
    assert figure["target"] == {"bound": 1.35, "at_least": False}


def test_a_page_is_written_between_its_markers(tmp_path: Path) -> None:
    """What stands around the markers stays, and writing twice is writing once."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKERS[0]}\nold\n{MARKERS[1]}\nafter\n", encoding="utf-8")

    write_between_markers(page, report(FASTER))
    once = page.read_text(encoding="utf-8")
    write_between_markers(page, report(FASTER))

    assert page.read_text(encoding="utf-8") == once
    assert once.startswith(f"before\n{MARKERS[0]}\n\n| what |")
    assert once.endswith(f"\n\n{MARKERS[1]}\nafter\n")
    assert "old" not in once


@pytest.mark.parametrize("text", ["nothing", MARKERS[0], f"{MARKERS[1]} {MARKERS[0]}"])
def test_a_page_without_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    """A page that does not say where the figures go is not written to."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md"):
        write_between_markers(page, report(FASTER))

    assert page.read_text(encoding="utf-8") == text
