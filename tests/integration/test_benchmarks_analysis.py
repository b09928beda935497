"""The failure analysis on labelled runs of other systems, where these are on the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.analysis.data import (
    AGENTRX,
    AGENTRX_LABELS,
    TAU_BENCH,
    WHO_AND_WHEN,
    agentrx,
    hash_of,
    who_and_when,
)
from benchmarks.analysis.predictors import constants, cross_validated, shown
from tests.support.real_logs import real_logs
from tests.support.require import require

ROOT = Path(__file__).parents[2]
_WHAT = "the labelled runs (name their folder by THREADBUS_DATA)"


def test_labels_stay_out_of_the_logs_and_the_ranking_beats_chance() -> None:
    """A few runs of teams: a third is fitted on the others, and does better than chance."""
    data = real_logs()
    require(_WHAT, data)
    assert data is not None
    runs = list(who_and_when(data, 30))
    chance = constants(runs)[0]
    ranked, by_agent = cross_validated(runs, folds=3)
    built_in = shown("built in", runs)

    assert len(runs) == 30
    assert all(run.label is not None and len(run.acts) >= 5 for run in runs)
    assert all(b"mistake_" not in bytes(entry.body) for run in runs for entry in run.run.entries)
    assert ranked.step is not None
    assert chance.step is not None
    assert built_in.step is not None
    assert by_agent.step is None
    assert ranked.step > chance.step
    assert built_in.step >= ranked.step


def test_labels_of_runs_with_tools_count_from_one() -> None:
    """Each labelled run of one agent has a cause among its messages."""
    data = real_logs()
    require(_WHAT, data)
    assert data is not None
    runs = list(agentrx(data))
    labelled = [run for run in runs if run.label is not None]

    assert len(runs) == 100
    assert sum(run.failed for run in runs) == 27
    assert len(labelled) == 27
    for run in labelled:
        assert run.label is not None
        assert 0 <= run.label.step < len(run.run.steps)


def test_the_program_prints_its_tables_and_writes_them(tmp_path: Path) -> None:
    """One run over a part of the data prints every table, and puts them into the page."""
    data = real_logs()
    require(_WHAT, data)
    assert data is not None
    part = tmp_path / "data"
    (part / WHO_AND_WHEN).mkdir(parents=True)
    (part / "README.md").write_text("a part", encoding="utf-8")
    for number in range(1, 13):
        shutil.copy(data / WHO_AND_WHEN / f"{number}.json", part / WHO_AND_WHEN)
    for name, most in ((AGENTRX, 8), (AGENTRX_LABELS, None), (TAU_BENCH, 8)):
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        some = json.loads((data / name).read_text(encoding="utf-8"))[:most]
        (part / name).write_text(json.dumps(some), encoding="utf-8")
    page = tmp_path / "analysis.md"
    page.write_text(
        "before\n<!-- measured: labelled runs -->\nto be replaced\n"
        "<!-- end: labelled runs -->\nafter\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.analysis", "--data", part),
            *("--splits", "1", "--write", page),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    written = page.read_text(encoding="utf-8")

    assert ran.returncode == 0, ran.stderr
    assert "### Who&When, 12 failed runs of teams" in ran.stdout
    assert "10-fold cross-validated" in ran.stdout
    assert hash_of(part)[:16] in written
    assert ran.stdout.strip() in written
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "to be replaced" not in written


def test_without_the_data_the_program_says_how_to_name_it(tmp_path: Path) -> None:
    """A folder without the data is an error that names the way out."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.analysis", "--data", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 3
    assert "THREADBUS_DATA" in ran.stderr
