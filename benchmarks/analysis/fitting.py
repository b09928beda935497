"""Weights of the ranking of steps, fitted by a conditional logistic regression in plain Python.

Each run is one choice among its steps; the likelihood of the labelled ones, less a penalty on large
weights, has one maximum, which Newton's method finds in a few rounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import exp
from typing import Final, TypeAlias

from threadbus.replay.findings.ranking import WORDS, Features

Vector: TypeAlias = list[float]

NAMES: Final = tuple(WORDS)
PENALTY: Final = 3.0
"""On the square of each weight, in units of its feature's spread."""

FOLDS: Final = 10
_ROUNDS: Final = 8


def fold_of(name: str, folds: int = FOLDS, split: int = 0) -> int:
    """Return the fold of a run in one of several splits: by its name, so that it never changes."""
    return int.from_bytes(hashlib.sha256(f"{split} {name}".encode()).digest()[:8]) % folds


def fit(
    runs: Sequence[tuple[Sequence[Features], int]],
    names: Sequence[str] = NAMES,
    penalty: float = PENALTY,
) -> Features:
    """Return the weights under which the labelled steps are the likeliest.

    Args:
        runs: of each its steps' features, and which step it is.
        names: the features that may count.
        penalty: the larger, the smaller the weights.
    """
    spread = _spread(runs, names)
    kept = [name for name in names if spread[name] > 0]
    tables = [
        ([[one.get(name, 0.0) / spread[name] for name in kept] for one in steps], label)
        for steps, label in runs
    ]
    weights = [0.0] * len(kept)
    for _ in range(_ROUNDS):
        slope, bend = _around(tables, weights, penalty)
        weights = [old + new for old, new in zip(weights, _solved(bend, slope), strict=True)]
    return {name: weight / spread[name] for name, weight in zip(kept, weights, strict=True)}


def _spread(
    runs: Sequence[tuple[Sequence[Features], int]], names: Sequence[str]
) -> dict[str, float]:
    steps = [one for found, _ in runs for one in found]
    spread: dict[str, float] = {}
    for name in names:
        values = [one.get(name, 0.0) for one in steps]
        mean = sum(values) / len(values)
        spread[name] = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    return spread


def _around(
    tables: Sequence[tuple[list[Vector], int]], weights: Vector, penalty: float
) -> tuple[Vector, list[Vector]]:
    """Return the slope of what is maximised, and how the slope falls."""
    size = len(weights)
    slope = [-penalty * weight for weight in weights]
    bend = [[penalty if row == column else 0.0 for column in range(size)] for row in range(size)]
    for steps, label in tables:
        scores = [sum(map(float.__mul__, weights, step)) for step in steps]
        top = max(scores)
        raised = [exp(score - top) for score in scores]
        whole = sum(raised)
        mean = [0.0] * size
        for step, share in zip(steps, raised, strict=True):
            share /= whole
            for at, value in enumerate(step):
                mean[at] += share * value
        slope = [one + is_ - was for one, is_, was in zip(slope, steps[label], mean, strict=True)]
        for step, share in zip(steps, raised, strict=True):
            share /= whole
            apart = [value - middle for value, middle in zip(step, mean, strict=True)]
            for row, value in enumerate(apart):
                if not value:
                    continue
                by, line = share * value, bend[row]
                for column in range(row + 1):
                    line[column] += by * apart[column]
    for row in range(size):
        for column in range(row):
            bend[column][row] = bend[row][column]
    return slope, bend


def _solved(matrix: list[Vector], right: Vector) -> Vector:
    """Return x with matrix · x = right, by Gauss with the largest pivot."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        top = rows[column]
        for row in range(column + 1, size):
            by = rows[row][column] / top[column]
            if by:
                rows[row] = [one - by * other for one, other in zip(rows[row], top, strict=True)]
    found = [0.0] * size
    for row in range(size - 1, -1, -1):
        rest = sum(rows[row][column] * found[column] for column in range(row + 1, size))
        found[row] = (rows[row][size] - rest) / rows[row][row]
    return found
