"""What was found, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.faults.running import QUICKENED, Outcome
from threadbus.replay import FindingKind

RECALL: Final = 0.95
"""Faults that must be found."""

FALSE_VIOLATIONS: Final = 1
"""Violations that may be found in all clean runs together."""


class Result(msgspec.Struct, frozen=True):
    """All outcomes."""

    faults: Sequence[Outcome]
    clean: Sequence[Outcome]

    @property
    def recall(self) -> float:
        """The share of the faults that was found."""
        found = sum(one.is_found for one in self.faults)
        return found / len(self.faults) if self.faults else 1.0

    @property
    def false_violations(self) -> int:
        """Violations in the clean runs."""
        return sum(one.counted(FindingKind.VIOLATION).total() for one in self.clean)

    @property
    def is_good(self) -> bool:
        """Whether both bounds hold."""
        return self.recall >= RECALL and self.false_violations <= FALSE_VIOLATIONS


def tables(result: Result) -> str:
    """Return every table."""
    return "\n\n".join([_summary(result), _faults(result.faults), _clean(result.clean)])


def _summary(result: Result) -> str:
    faults, clean = result.faults, result.clean
    of = len(faults)
    ranks = [one.rank for one in faults]
    symptoms = sum(one.counted(FindingKind.SYMPTOM).total() for one in clean)
    hints = sum(one.counted(FindingKind.HINT).total() for one in clean)
    violations = result.false_violations
    rows = [
        ("faults found (recall)", _of(sum(one.is_found for one in faults), of)),
        ("found, and no mere hint", _of(sum(one.is_sure for one in faults), of)),
        ("right agent", _of(sum(one.has_agent for one in faults), of)),
        ("right step, exactly", _of(sum(one.has_step for one in faults), of)),
        ("injected step first among the suspects", _of(sum(one == 1 for one in ranks), of)),
        ("among the three suspects", _of(sum(one is not None for one in ranks), of)),
        (f"violations in {len(clean)} clean runs", str(violations)),
        (f"symptoms in {len(clean)} clean runs", str(symptoms)),
        (f"hints in {len(clean)} clean runs", str(hints)),
    ]
    settings = ", ".join(f"`{one}`" for one in QUICKENED)
    return "\n".join(
        [
            f"Settings of all runs: {settings}; otherwise the defaults.",
            "",
            "| what | count |",
            "|---|---|",
            *(f"| {name} | {count} |" for name, count in rows),
        ]
    )


def _of(count: int, whole: int) -> str:
    return f"{count} of {whole} ({count / whole:.2f})" if whole else "-"


def _faults(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| injected fault | found by | kind | agent | step | place among suspects |",
        "|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        found = ", ".join(dict.fromkeys(hit.detector for hit in one.hits)) or "**not found**"
        kinds = ", ".join(dict.fromkeys(hit.kind.value for hit in one.hits)) or "-"
        rank = "-" if one.rank is None else str(one.rank)
        lines.append(
            f"| {one.scenario.name} | {found} | {kinds} | {_right(one.has_agent)} "
            f"| {_right(one.has_step)} | {rank} |"
        )
    return "\n".join(lines)


def _right(is_right: object) -> str:
    return "right" if is_right else "wrong"


def _clean(outcomes: Sequence[Outcome]) -> str:
    lines = ["| clean run | violations | symptoms | hints |", "|---|---|---|---|"]
    for one in outcomes:
        cells = [
            ", ".join(one.counted(kind)) or "-"
            for kind in (FindingKind.VIOLATION, FindingKind.SYMPTOM, FindingKind.HINT)
        ]
        lines.append(f"| {one.scenario.name} | {' | '.join(cells)} |")
    return "\n".join(lines)
