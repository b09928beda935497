"""The benchmark of `busreplay` runs to its end; what it finds is not looked at here."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_busreplay_is_measured_in_every_form() -> None:
    """One table has the time and the memory of each form, against decoding only."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.replaying", "--rounds", "1", "--scale", "0.005"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    for form in ("tree", "timeline", "json", "jsonl"):
        assert f"busreplay of 500 events as {form}, all of it" in ran.stdout
        assert f"busreplay of 500 events as {form}, memory" in ran.stdout
