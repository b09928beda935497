"""Break things while agents work, and check what is left: ``python -m tests.chaos``.

Each scenario has a seed, a bound in time and in super-tasks, and servers and folders of its own.
The exit code is 1 where an invariant does not hold, and 3 where a scenario could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.chaos.catalogue import QUICK, SCENARIOS, Scenario
from tests.chaos.needs import MissingError
from tests.chaos.stage import Stage
from tests.chaos.table import findings, table
from tests.chaos.verdict import Verdict

_SECONDS: Final = 20.0
_QUICK_S: Final = 5.0
_OVERHEAD_S: Final = 15.0
_LONGEST_S: Final = 900.0
_MAX_MINUTES: Final = 24 * 60
_HARD_END_S: Final = 300.0
"""Beyond the time of its faults a scenario gets so much to settle; then it is given up."""


def main() -> int:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="what chance decides; 0 takes a new one"
    )
    parser.add_argument("--scenario", default="", metavar="NAMES", help="some only, with commas")
    parser.add_argument("--minutes", type=float, default=0, help="for all of them together")
    parser.add_argument("--quick", action="store_true", help="a short selection, as CI runs it")
    parser.add_argument("--keep", type=Path, help="folder for logs and histories with a breach")
    parser.add_argument("--list", action="store_true", help="say what there is")
    given = parser.parse_args()
    if given.list:
        for one in SCENARIOS:
            print(f"{one.name:<20} {one.about}")
        return 0
    known = {one.name: one for one in SCENARIOS}
    names = [name for name in given.scenario.split(",") if name] or (
        list(QUICK) if given.quick else list(known)
    )
    for name in names:
        if name not in known:
            parser.error(f"no scenario is called {name!r}; there are {', '.join(known)}")
    if not 0 <= given.minutes <= _MAX_MINUTES:
        parser.error(f"--minutes {given.minutes:g} is not between 0 and {_MAX_MINUTES:,}")
    seed = given.seed or time.time_ns() % 1_000_000 + 1
    seconds = _QUICK_S if given.quick else _SECONDS
    if given.minutes:
        seconds = min(_LONGEST_S, max(_QUICK_S, given.minutes * 60 / len(names) - _OVERHEAD_S))
    print(f"SEED={seed}: {len(names)} scenarios with faults for {seconds:.0f} s each", flush=True)
    return _run([known[name] for name in names], seed, seconds, given.keep)


def _run(scenarios: list[Scenario], seed: int, seconds: float, keep: Path | None) -> int:
    rows: list[tuple[str, Verdict]] = []
    broken: list[str] = []
    for one in scenarios:
        began = time.monotonic()
        try:
            verdict, counts = asyncio.run(_one(one, seed, seconds, keep))
        except MissingError as missing:
            print(f"{one.name}: not run: {missing}", flush=True)
            if os.environ.get("THREADBUS_REQUIRE_ALL"):
                broken.append(one.name)
            continue
        except Exception:
            # One that breaks says nothing of the others.
            traceback.print_exc()
            broken.append(one.name)
            continue
        rows.append((one.name, verdict))
        done = ", ".join(f"{what} {times}" for what, times in sorted(counts.items()))
        print(f"{one.name}: {done} ({time.monotonic() - began:.0f} s)", flush=True)
        for line in findings(verdict):
            print(f"  {line}", flush=True)
    print(f"\n{table(rows)}\n", flush=True)
    if broken:
        print(f"could not be run: {', '.join(broken)}; SEED={seed}")
        return 3
    breaches = sum(verdict.breaches for _, verdict in rows)
    print(f"{breaches} breaches; SEED={seed}")
    return 1 if breaches else 0


async def _one(
    scenario: Scenario, seed: int, seconds: float, keep: Path | None
) -> tuple[Verdict, dict[str, int]]:
    with TemporaryDirectory(prefix="threadbus-chaos-") as folder:
        stage = Stage(Path(folder), seed, seconds)
        stage.keeps = None if keep is None else keep / scenario.name
        async with asyncio.timeout(seconds + _HARD_END_S):
            verdict = await scenario.run(stage)
        return verdict, stage.counts


if __name__ == "__main__":
    sys.exit(main())
