"""What every benchmark takes on its command line, and how it is run."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.figures import Figure, Report, load, show, write_between_markers


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    rounds: int
    scale: float
    """Multiplies every count; below 1 for a quick look."""

    def count(self, usual: int) -> int:
        """Return *usual*, scaled; at least 1."""
        return max(1, round(usual * self.scale))


Measure: TypeAlias = Callable[[Options], Awaitable[Sequence[Figure]]]


def main(summary: str | None, measures: Sequence[Measure]) -> None:
    """Measure, print the table, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(summary or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=_at_least_one, default=7, help="pairs of runs (7)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiplies every count; 0.1 for a quick look"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement there")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the ratios into this Markdown file"
    )
    given = parser.parse_args()
    before = load()
    figures = asyncio.run(_all(measures, Options(given.rounds, given.scale)))
    report = Report(figures, before, load())
    show(report)
    if given.json is not None:
        given.json.write_text(report.as_json() + "\n", encoding="utf-8")
    if given.write is not None:
        write_between_markers(given.write, report)


async def _all(measures: Sequence[Measure], options: Options) -> list[Figure]:
    return [figure for measure in measures for figure in await measure(options)]


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value
