"""Aligning two sequences: the longest common subsequence, within bounds of time and memory.

What they begin and end with alike is matched first. What is left between is matched exactly where
it is small; where it is not, by elements that come once on either side (patience), and what is
between those in the same way again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MAX_CELLS: Final = 1_000_000
"""Cells of the table of an exact alignment; also how many are filled in all."""

_UP, _LEFT, _BOTH = 0, 1, 2


class Alignment(NamedTuple):
    """Which elements belong together."""

    pairs: list[tuple[int, int]]
    """Indices in the one and in the other, rising."""
    is_exact: bool
    """Whether no longer alignment exists; otherwise it may."""


class _Piece(NamedTuple):
    a_from: int
    a_to: int
    b_from: int
    b_to: int


def align(a: Sequence[Hashable], b: Sequence[Hashable], max_cells: int = MAX_CELLS) -> Alignment:
    """Return a common subsequence of *a* and *b*: the longest one where that is affordable."""
    pairs: list[tuple[int, int]] = []
    is_exact = True
    room = max_cells
    pieces = [_Piece(0, len(a), 0, len(b))]
    while pieces:
        piece, same = _trimmed(a, b, pieces.pop())
        pairs += same
        rows, columns = piece.a_to - piece.a_from, piece.b_to - piece.b_from
        if not rows or not columns:
            continue
        if rows * columns <= room:
            room -= rows * columns
            pairs += _exact(a, b, piece)
            continue
        is_exact = False
        pieces += _split(a, b, piece)
    return Alignment(sorted(pairs), is_exact)


def _trimmed(
    a: Sequence[Hashable], b: Sequence[Hashable], piece: _Piece
) -> tuple[_Piece, list[tuple[int, int]]]:
    """Match what a piece begins and ends with alike."""
    a_from, a_to, b_from, b_to = piece
    pairs: list[tuple[int, int]] = []
    while a_from < a_to and b_from < b_to and a[a_from] == b[b_from]:
        pairs.append((a_from, b_from))
        a_from, b_from = a_from + 1, b_from + 1
    while a_from < a_to and b_from < b_to and a[a_to - 1] == b[b_to - 1]:
        a_to, b_to = a_to - 1, b_to - 1
        pairs.append((a_to, b_to))
    return _Piece(a_from, a_to, b_from, b_to), pairs


def _exact(a: Sequence[Hashable], b: Sequence[Hashable], piece: _Piece) -> list[tuple[int, int]]:
    """Fill the table; of each row the lengths are kept, of each cell only the way."""
    ours = a[piece.a_from : piece.a_to]
    theirs = b[piece.b_from : piece.b_to]
    above = [0] * (len(theirs) + 1)
    ways: list[bytearray] = []
    for one in ours:
        row = [0]
        way = bytearray(len(theirs))
        best = 0
        for column, other in enumerate(theirs):
            if one == other:
                best = above[column] + 1
                way[column] = _BOTH
            elif above[column + 1] >= best:
                best = above[column + 1]
            else:
                way[column] = _LEFT
            row.append(best)
        above = row
        ways.append(way)
    pairs: list[tuple[int, int]] = []
    row_number, column = len(ours) - 1, len(theirs) - 1
    while row_number >= 0 and column >= 0:
        step = ways[row_number][column]
        if step == _BOTH:
            pairs.append((piece.a_from + row_number, piece.b_from + column))
            row_number, column = row_number - 1, column - 1
        elif step == _UP:
            row_number -= 1
        else:
            column -= 1
    return pairs


def _split(a: Sequence[Hashable], b: Sequence[Hashable], piece: _Piece) -> list[_Piece]:
    """Cut a piece at what comes once on either side, in the same order; nothing where none does.

    A piece is cut before what it is cut at, so that the trimming of the next one matches that.
    """
    a_from, a_to, b_from, b_to = piece
    counts_a, counts_b = Counter(a[a_from:a_to]), Counter(b[b_from:b_to])
    places = {b[at]: at for at in range(b_from, b_to) if counts_b[b[at]] == 1}
    once = [
        (at, places[a[at]])
        for at in range(a_from, a_to)
        if counts_a[a[at]] == 1 and a[at] in places
    ]
    anchors = _rising(once)
    bounds = [(a_from, b_from), *anchors, (a_to, b_to)]
    if not anchors:
        return []
    return [
        _Piece(one, next_one, other, next_other)
        for (one, other), (next_one, next_other) in pairwise(bounds)
    ]


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest rising subsequence of second places; the first ones rise already."""
    tails: list[int] = []
    tail_pairs: list[int] = []
    before = [-1] * len(pairs)
    for index, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        before[index] = tail_pairs[at - 1] if at else -1
        tails[at : at + 1] = [place]
        tail_pairs[at : at + 1] = [index]
    found: list[tuple[int, int]] = []
    index = tail_pairs[-1] if tail_pairs else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]
