"""Inject faults into runs on a real server, and see what the detectors find.

    python -m benchmarks.faults [--quick] [--write docs/analysis.md]

The exit code is 1 where fewer faults are found, or more violations seen in clean runs, than is
promised.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.catalogue import clean, faulty
from benchmarks.faults.report import Result, tables
from benchmarks.faults.running import run
from benchmarks.faults.scenario import Scenario
from benchmarks.server import private_server
from benchmarks.writing import write_between


def main() -> int:
    """Run, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="only what takes no time")
    parser.add_argument("--only", metavar="WORDS", default="", help="scenarios so called")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this file")
    given = parser.parse_args()
    faults = _named(faulty(quick=given.quick), given.only)
    fine = _named(clean(quick=given.quick), given.only)
    if not faults and not fine:
        parser.error(f"no scenario is called {given.only!r}")
    result = asyncio.run(_run(faults, fine))
    text = tables(result)
    print(text)
    if given.write is not None:
        write_between(given.write, "injected faults", text)
    return 0 if result.is_good else 1


def _named(scenarios: Sequence[Scenario], words: str) -> list[Scenario]:
    return [one for one in scenarios if words.lower() in one.name]


async def _run(faults: Sequence[Scenario], fine: Sequence[Scenario]) -> Result:
    async with private_server() as url:
        outcomes = await run(url, [*faults, *fine])
    return Result(outcomes[: len(faults)], outcomes[len(faults) :])


if __name__ == "__main__":
    sys.exit(main())
