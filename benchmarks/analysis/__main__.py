"""Measure the failure analysis on labelled runs of other systems.

python -m benchmarks.analysis [--data FOLDER] [--write docs/analysis.md]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.analysis.data import data_folder
from benchmarks.analysis.predictors import fitted
from benchmarks.analysis.report import MAX_SPLITS, SPLITS, Measured, measure, tables
from benchmarks.writing import write_between

_MISSING = 3


def main() -> int:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the runs are")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this file")
    parser.add_argument(
        "--weights", action="store_true", help="print the weights that fit all runs, for the code"
    )
    parser.add_argument(
        "--splits", type=int, default=SPLITS, help=f"ways to part the runs ({SPLITS})"
    )
    given = parser.parse_args()
    if not 1 <= given.splits <= MAX_SPLITS:
        parser.error(f"--splits is 1 to {MAX_SPLITS}, not {given.splits}")
    folder = data_folder(given.data)
    if folder is None:
        print(
            "the labelled runs are not here: name their folder with --data or THREADBUS_DATA",
            file=sys.stderr,
        )
        return _MISSING
    measured: Measured = measure(folder)
    text = tables(measured, given.splits)
    print(text)
    if given.weights:
        for name, weight in fitted(measured.who_and_when).items():
            print(f'    "{name}": {weight:.2f},')
    if given.write is not None:
        write_between(given.write, "labelled runs", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
