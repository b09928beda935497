"""A time scale in columns: to scale where something happens, one column where nothing does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MIN_GAP_NS: Final = 10_000_000_000
"""Nanoseconds without an event that may be cut short, if nobody is known to be at work."""

MIN_WORK_GAP_NS: Final = 600_000_000_000
"""The same while a model or a tool is at work."""

MAX_GAPS: Final = 200
"""Gaps in one scale; shorter ones than these are drawn."""

_LARGE: Final = 0.2


class Gap(NamedTuple):
    """A stretch that takes one column, however long it was."""

    start: int
    end: int
    column: int


class Scale:
    """Maps times to columns, of which *columns* are to scale and one more stands for each gap.

    Args:
        moments: when something happened, in order.
        busy: stretches in which a model or a tool was at work, in order of their start.
        columns: how many there are to scale, at least 1.
    """

    def __init__(
        self, moments: Sequence[int], busy: Sequence[tuple[int, int]], columns: int
    ) -> None:
        gaps = _gaps(moments, busy)
        self.start = moments[0]
        self.end = moments[-1]
        drawn = self.end - self.start - sum([end - start for start, end in gaps])
        self.per_column = max(drawn / columns, 1.0)
        """Nanoseconds of one column."""
        self.gaps: list[Gap] = []
        self._cut = [0]
        for start, end in gaps:
            column = int((start - self.start - self._cut[-1]) / self.per_column) + len(self.gaps)
            self.gaps.append(Gap(start, end, column + 1))
            self._cut.append(self._cut[-1] + end - start)
        self._starts = [gap.start for gap in self.gaps]
        self._columns = [gap.column for gap in self.gaps]
        self.columns = self.column(self.end) + 1
        """All of them."""

    def column(self, at: int) -> int:
        """Return the column of a time; what is outside the scale is put at its ends."""
        at = min(max(at, self.start), self.end)
        # Where a gap begins something happened: it is before the gap.
        before = bisect_right(self._starts, at - 1)
        if before and at < self.gaps[before - 1].end:
            return self.gaps[before - 1].column
        return int((at - self.start - self._cut[before]) / self.per_column) + before

    def time(self, column: int) -> int:
        """Return the time at which a column begins."""
        before = bisect_right(self._columns, column - 1)
        return int(self.start + self._cut[before] + (column - before) * self.per_column)


def _gaps(moments: Sequence[int], busy: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the stretches that are so long that all else would be too small to see."""
    candidates: list[tuple[int, int]] = []
    index, until = 0, 0
    for before, after in pairwise(moments):
        if after - before < MIN_GAP_NS:
            continue
        while index < len(busy) and busy[index][0] <= before:
            until = max(until, busy[index][1])
            index += 1
        if until <= before or after - before >= MIN_WORK_GAP_NS:
            candidates.append((before, after))
    rest = moments[-1] - moments[0]
    chosen: list[tuple[int, int]] = []
    for start, end in sorted(candidates, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS]:
        rest -= end - start
        if end - start > _LARGE * rest:
            chosen.append((start, end))
        else:
            break
    return sorted(chosen)
