"""The filters, prices and looks of `busreplay` on its command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.busreplay import busreplay
from tests.support.runs import revenue_run
from tests.support.story import Story
from threadbus.replay import export_line

PRICES = '{"currency": "EUR", "models": {"small-*": {"input": 1000, "output": 1000}}}'


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one run."""
    return write(tmp_path_factory.mktemp("run") / "run.jsonl", revenue_run())


def write(path: Path, story: Story) -> Path:
    """Write an exported file."""
    path.write_bytes(b"".join([export_line(item) for item in story.log]))
    return path


def test_lines_are_chosen_and_stay_verbatim(run_file: Path) -> None:
    """By kind, sequence and text at once."""
    arguments = ("--kind", "tool", "--from", "10", "--to", "+1h", "--grep", "READ")
    result = busreplay("--file", run_file, *arguments, "--format", "jsonl")
    lines = result.stdout.splitlines(keepends=True)

    assert result.returncode == 0
    assert lines
    whole = run_file.read_bytes().splitlines(keepends=True)
    assert [line for line in lines if line not in whole] == []
    assert all(b'"type":"tool.' in line and b"read" in line.lower() for line in lines)


def test_a_person_is_told_what_is_left_out(run_file: Path) -> None:
    """In the head of the tree, and also where nothing is left."""
    assert b"only kind vote: " in busreplay("--file", run_file, "--kind", "vote").stdout
    nothing = busreplay("--file", run_file, "--grep", "nobody says this")
    assert nothing.returncode == 0
    assert b"nothing in this run is of saying 'nobody says this'" in nothing.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--from", "soon"), 2, b"--from 'soon' is not a sequence (120)"),
        (("--to", "1.5s"), 2, b"--to '1.5s' is not a sequence"),
        (("--from", "9", "--to", "3"), 2, b"--from 9 is later than --to 3"),
        (("--kind", "nope"), 1, b"no kind 'nope' in this run; it has answer.submitted"),
        (("--kind", "nope", "--format", "jsonl"), 1, b"no kind 'nope'"),
        (("--width", "10"), 2, b"--width 10: from 40 to 1000"),
        (("--grep", "x" * 1_001), 2, b"1,000 at most"),
        (("--prices", "none.toml"), 2, b"cannot use the prices in 'none.toml'"),
        (("--redact", "all"), 2, b"all"),
    ],
)
def test_what_is_not_right_is_said(
    run_file: Path, arguments: tuple[str, ...], code: int, says: bytes
) -> None:
    """The message names the value and the way out."""
    result = busreplay("--file", run_file, *arguments)

    assert (result.returncode, says in result.stderr) == (code, True), result.stderr
    assert b"Traceback" not in result.stderr


def test_costs_are_shown_by_a_table(run_file: Path, tmp_path: Path) -> None:
    """In the head, at calls and for each agent; a variable can name the table."""
    prices = tmp_path / "prices.json"
    prices.write_text(PRICES, encoding="utf-8")
    shown = busreplay("--file", run_file, "--prices", prices).stdout.decode()

    assert " EUR" in shown.splitlines()[3]
    assert "cost" in shown
    assert busreplay("--file", run_file, BUS_PRICES=str(prices)).stdout.decode() == shown
    assert "EUR" not in busreplay("--file", run_file).stdout.decode()
    prices.write_text(PRICES.replace("small-*", "other"), encoding="utf-8")
    unpriced = busreplay("--file", run_file, "--prices", prices).stdout.decode()
    assert "no price for small-1" in unpriced
    assert " · no price" in unpriced


def test_texts_are_shown_in_full(tmp_path: Path) -> None:
    """Every line of them, where the tree shows only the first otherwise."""
    story = Story()
    asked = story.ask("planner")
    story.say("planner", "first line\nsecond line\n" + "word " * 200 + "end", cause=asked)
    file = write(tmp_path / "run.jsonl", story)
    compact = busreplay("--file", file).stdout.decode()
    full = busreplay("--file", file, "--full", "--width", "80").stdout.decode()

    assert "second line" not in compact
    assert "second line\n" in full
    assert " end\n" in full
    assert max(len(line) for line in full.splitlines()) <= 80


def test_width_and_colour_can_be_said(run_file: Path) -> None:
    """A width holds for a pipe, too."""
    text = busreplay("--file", run_file, "--width", "60").stdout.decode()

    assert max(len(line) for line in text.splitlines()) <= 60
    forced = busreplay("--file", run_file, "--no-color", FORCE_COLOR="1").stdout
    assert b"\x1b" not in forced


def test_the_help_lists_verbs() -> None:
    """Each with what it does."""
    shown = b" ".join(busreplay("--help").stdout.split())

    assert b"Verbs, in place of TASK" in shown
    assert b"export Write runs into a file" in shown
