"""What the detectors say of a real run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from tests.support.busreplay import busreplay
from tests.support.cli import ended, environment, process
from tests.support.tree import ROOT
from threadbus.agents.cli.results import Demo
from threadbus.replay import FindingKind, Timeline


async def test_a_demo_in_which_all_goes_well_has_neither_violations_nor_symptoms(
    tmp_path: Path,
) -> None:
    """A real team on a real server; the command says the same of it as the analysis."""
    async with process("demo", "--json", env=environment(tmp_path), cwd=ROOT) as demo:
        result = (await ended(demo)).json(Demo)
    shown = await asyncio.to_thread(
        busreplay, "--file", result.file, "--exit-code", "--format", "json"
    )
    timeline = msgspec.json.decode(shown.stdout, type=Timeline)

    assert shown.returncode == 0
    assert {one.kind for one in timeline.findings} <= {FindingKind.HINT}
    assert timeline.status == "completed"
