"""Every scenario; importing the scripts registers them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.faults import (
    breaking,
    clean_runs,
    clean_teams,
    deciding,
    edges,
    processes,
    talking,
    variants,
)
from benchmarks.faults.scenario import CLEAN, FAULTS, Scenario

SCRIPTS = (talking, deciding, breaking, variants, edges, processes, clean_runs, clean_teams)
"""The modules with the scripts."""


def faulty(*, quick: bool = False) -> Sequence[Scenario]:
    """Return the scenarios with a fault, or those of them that take no time."""
    return [one for one in FAULTS if not (quick and one.is_slow)]


def clean(*, quick: bool = False) -> Sequence[Scenario]:
    """Return the scenarios without one, or those of them that take no time."""
    return [one for one in CLEAN if not (quick and one.is_slow)]
