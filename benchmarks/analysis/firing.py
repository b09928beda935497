"""How much a finding of each detector says: precision and recall beside the base rate."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.analysis.data import LabelledRun, step_of
from threadbus.replay.findings import ALL


class Firing(msgspec.Struct):
    """One detector on one set of runs."""

    detector: str
    runs: int = 0
    """Runs in which it finds something."""
    failed: int = 0
    """Those of them that failed."""
    steps: int = 0
    """Steps of labelled runs that it points to."""
    exact: int = 0
    """Those of them that are labelled as wrong."""
    near: int = 0
    """Those of them that are at most one away from such a step."""


def firings(runs: Sequence[LabelledRun]) -> list[Firing]:
    """Return what each detector that finds anything is worth."""
    found: list[Firing] = []
    for detector in ALL:
        firing = Firing(detector.id)
        for run in runs:
            steps = {
                step_of(run.run, finding.seq)
                for finding in run.analysis.findings
                if finding.detector == detector.id
            }
            firing.runs += bool(steps)
            firing.failed += bool(steps) and run.failed
            if run.faults:
                firing.steps += len(steps)
                firing.exact += len(steps & set(run.faults))
                firing.near += sum(
                    any(abs(step - fault) <= 1 for fault in run.faults) for step in steps
                )
        if firing.runs:
            found.append(firing)
    return found


def chance(runs: Sequence[LabelledRun]) -> tuple[int, int]:
    """Return how many steps of the labelled runs are labelled as wrong, and how many there are."""
    labelled = [run for run in runs if run.faults]
    wrong = sum(len(set(run.faults)) for run in labelled)
    return wrong, sum(len(run.run.steps) for run in labelled)
