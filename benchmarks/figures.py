"""What a benchmark found: pairs of measurements, their ratios, and what they should be."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

AIM: Final = "what is aimed at"
"""What a figure is compared with that has no other side."""

MARKERS: Final = ("<!-- figures: python -m benchmarks --write FILE -->", "<!-- end of figures -->")


@dataclass(frozen=True)
class Target:
    """A bound on the median ratio."""

    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"

    def is_met_by(self, ratio: float) -> bool:
        """Whether *ratio* is on the right side."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True)
class Figure:
    """One comparison. ``ours`` and ``theirs`` hold one measurement of each round."""

    name: str
    """What is measured, unique in a run."""
    against: str
    """What it is compared with."""
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    target: Target | None = None
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Ours divided by theirs, round by round."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        """Whether the target is met; empty where there is none."""
        if self.target is None:
            return ""
        return "met" if self.target.is_met_by(self.median) else "missed"


@dataclass(frozen=True)
class Report:
    """Every figure of a run and where it was taken."""

    figures: Sequence[Figure]
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    python: str = field(default_factory=platform.python_version)
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    def as_json(self) -> str:
        """Return everything, one measurement of each round included."""
        return json.dumps(
            {
                **asdict(self),
                "figures": [
                    {
                        **asdict(figure),
                        "ratios": figure.ratios,
                        "median": figure.median,
                        "verdict": figure.verdict,
                    }
                    for figure in self.figures
                ],
            },
            indent=2,
        )


def show(report: Report) -> None:
    """Print a table for a person: what was measured, in its unit, and the ratios."""
    rows = [("", "compared with", "ours", "theirs", "ratio", "from", "to", "target", "")]
    rows += [
        (
            figure.name,
            figure.against,
            _amount(statistics.median(figure.ours), figure.unit),
            _amount(statistics.median(figure.theirs), figure.unit),
            f"{figure.median:.2f}",
            f"{min(figure.ratios):.2f}",
            f"{max(figure.ratios):.2f}",
            "" if figure.target is None else str(figure.target),
            figure.verdict,
        )
        for figure in report.figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.ljust(width) if column in {0, 1, 8} else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    print(
        f"\n{report.cores} cores, Python {report.python}, "
        f"load {report.load_before[0]:.1f} before and {report.load_after[0]:.1f} after"
    )


def _amount(value: float, unit: str) -> str:
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{shown} {unit}"


def markdown(report: Report) -> str:
    """Return the ratios as a table for the documentation; no absolute figures."""
    lines = [
        "| what | compared with | ratio | rounds | target |",
        "|---|---|---|---|---|",
    ]
    for figure in report.figures:
        target = "" if figure.target is None else f"{figure.target} ({figure.verdict})"
        spread = f"{min(figure.ratios):.2f} to {max(figure.ratios):.2f}"
        lines.append(
            f"| {figure.name} | {figure.against} | {figure.median:.2f} | {spread} | {target} |"
        )
    lines += [
        "",
        f"Taken on {report.at[:10]} with Python {report.python} on {report.cores} cores, "
        f"{min(len(figure.ours) for figure in report.figures)} rounds or more of each.",
    ]
    return "\n".join(lines)


def write_between_markers(path: Path, report: Report) -> None:
    """Put the ratios between the two markers of a Markdown file.

    Raises:
        ValueError: the file has no such markers.
    """
    text = path.read_text(encoding="utf-8")
    before, start, rest = text.partition(MARKERS[0])
    _, end, after = rest.partition(MARKERS[1])
    if not start or not end:
        raise ValueError(f"{path} lacks the lines {MARKERS[0]!r} and {MARKERS[1]!r}")
    path.write_text(
        f"{before}{start}\n\n{markdown(report)}\n\n{end}{after}", encoding="utf-8", newline="\n"
    )


def load() -> tuple[float, float, float]:
    """Return the load averages of the machine."""
    return os.getloadavg()


def say(text: str) -> None:
    """Tell a person who waits what is going on."""
    print(f"  {text} …", file=sys.stderr, flush=True)
