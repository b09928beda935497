"""The load run of the teams that pause, with a few prompts of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.tree import ROOT


def run(*arguments: str, data: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.ioa_load", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ | {"THREADBUS_DATA": data},
    )


def test_every_prompt_is_concluded_and_woken_once(tmp_path: Path) -> None:
    """Counts, and exit code 0; the file is found by the variable too."""
    folder = tmp_path / "ioa"
    folder.mkdir()
    rows = [{"instruction": f"Prompt {number}\nin two lines", "label": "x"} for number in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "open_instruction.jsonl").write_text(lines, encoding="utf-8")
    ran = run(data=str(tmp_path))

    assert ran.returncode == 0, ran.stderr
    counts = dict(line.rsplit("  ", 1) for line in ran.stdout.splitlines() if "  " in line)
    assert {key.strip(): value.strip() for key, value in counts.items()}["lost"] == "0"
    assert "woken once 6" in ran.stdout
    assert "results    12 of 12" in ran.stdout


def test_without_prompts_it_says_how_to_name_them() -> None:
    """A missing file is a usage error that names it."""
    ran = run("/nonexistent/prompts.jsonl")

    assert ran.returncode == 2
    assert "no prompts: /nonexistent/prompts.jsonl" in ran.stderr
    assert "THREADBUS_DATA" in run().stderr
