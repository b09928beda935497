"""Every benchmark runs to its end; what it finds is not looked at here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="idle reads /proc")
def test_everything_is_measured_and_written(tmp_path: Path) -> None:
    """One run prints a table, writes each measurement as JSON and the ratios into the page."""
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    measured = tmp_path / "measured.json"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "--rounds", "2", "--scale", "0.02"),
            *("--json", measured, "--write", page),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    figures = json.loads(measured.read_text(encoding="utf-8"))["figures"]
    assert len(figures) >= 20
    assert all(len(figure["ratios"]) == 2 and figure["median"] > 0 for figure in figures)
    for figure in figures:
        assert figure["name"] in ran.stdout
        assert f"| {figure['name']} | {figure['against']} |" in page.read_text(encoding="utf-8")


def test_the_gateway_is_measured() -> None:
    """Both sides answer, one after the other and many at once."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.a2a", "--rounds", "1", "--scale", "0.04"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "message to answer over A2A" in ran.stdout
    assert "20 streams at once" in ran.stdout
    assert "the same while 20 streams are open" in ran.stdout


def test_a_wrong_number_of_rounds_is_refused() -> None:
    """A count that makes no sense is a usage error that names it."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.append", "--rounds", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 2
    assert "--rounds" in ran.stderr
    assert "0" in ran.stderr
