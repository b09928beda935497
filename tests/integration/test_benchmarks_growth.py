"""The programs that measure growth run to their end and write their page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scale_model import Costs, model_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations" / "scale.md"
LINUX = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="it reads /proc")


def _run(module: str, *options: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@LINUX
def test_sizes_and_the_model_are_written_into_the_page(tmp_path: Path) -> None:
    """Each table stands between its marks, and what is around them stays."""
    page = tmp_path / "scale.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    printed = _run("scale", "--scale", "0.02", "--write", str(page))
    text = page.read_text(encoding="utf-8")

    for line in printed.strip().splitlines():
        assert line in text
    assert "| a subject, in memory |" in text
    assert "| 1,000,000,000 |" in text
    assert text.startswith("# Growth\n")


@LINUX
def test_inboxes_on_one_stream_and_on_several_are_compared() -> None:
    """Every mention is delivered and out of its work queue, however many streams there are."""
    printed = _run("inboxes", "--rounds", "1", "--scale", "0.03")

    assert "30 agents, 4 streams, processor time of the server" in printed
    assert "10 agents, 4 streams, mentions a second" in printed


def test_the_model_is_the_costs_times_the_events() -> None:
    """A tenfold day needs ten times of everything."""
    costs = Costs(
        task_events=10,
        task_subjects=5,
        task_mentions=2,
        body_bytes=500,
        event_bytes=1000,
        event_memory=0,
        subject_memory=100,
        mention_bytes=2000,
        hub_bytes=3000,
        inbox_memory=1,
        partition_memory=1,
        measured_subjects=1,
        restart_events=1,
        restart_subjects=1,
        mention_work=1,
        hub_work=1,
        spread_work=1,
    )
    rows = model_table(costs).splitlines()

    assert rows[2] == "| 100,000 | 6 | 10,000 | 3.0 GB | 150 MB | 60 MB |"
    assert rows[3] == "| 1,000,000 | 58 | 100,000 | 30 GB | 1.5 GB | 600 MB |"
