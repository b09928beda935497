"""The difference of two runs in lines for a person: one below the other, or side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from threadbus.replay.diffing.compare import Diff, Row, RowKind, Side, StepLine
from threadbus.replay.paint import Painter, Span
from threadbus.replay.text import duration, first_line, money, offset, plural

CONTEXT: Final = 2
"""Rows alike that are shown before and after what differs."""

MAX_SHOWN: Final = 2_000
"""Rows that a person gets; --json has more of them."""

_MIN_SIDE: Final = 40
_SIGNS: Final = {
    RowKind.SAME: ("  ", "dim"),
    RowKind.CHANGED: ("~ ", "warn"),
    RowKind.ONLY_A: ("- ", "bad"),
    RowKind.ONLY_B: ("+ ", "good"),
}


class View(StrEnum):
    """What ``--view`` takes."""

    AUTO = "auto"
    """Side by side where a terminal is wide enough."""
    SIDE = "side"
    """Side by side."""
    UNIFIED = "unified"
    """One below the other."""


def write_diff(painter: Painter, diff: Diff, view: View = View.AUTO) -> None:
    """Write what differs.

    Args:
        painter: where to.
        diff: the comparison.
        view: how steps are put beside one another.
    """
    for letter, side in (("A", diff.a), ("B", diff.b)):
        title = first_line(side.title, 80) or "(no title)"
        line = f"{letter} {side.task or 'unknown'} {title} ({side.name})"
        painter.line([Span(painter.clean(line), "bold")])
    _relation(painter, diff)
    _table(painter, diff)
    painter.line()
    wide = painter.width is None or painter.width >= 2 * _MIN_SIDE + 3
    side_by_side = view is View.SIDE or (view is View.AUTO and painter.width is not None and wide)
    for row in _chosen(diff.rows):
        if isinstance(row, int):
            painter.line([Span(f"  … {plural(row, 'step')} alike", "dim")])
        elif side_by_side:
            _beside(painter, row)
        else:
            _below(painter, row)
    painter.flush()


def _relation(painter: Painter, diff: Diff) -> None:
    if diff.relation:
        text = {
            "b is a fork of a": "B is a fork of A",
            "a is a fork of b": "A is a fork of B",
        }.get(diff.relation, diff.relation)
        if diff.fork_point is not None:
            seq, own = diff.fork_point
            text = f"{text}, copied up to its entry {seq:,}; its own begins at entry {own:,}"
        painter.line([Span(text, "warn")])
    found = diff.divergence
    if found is None:
        painter.line([Span(f"no difference in {plural(diff.same, 'step')}", "good")])
        return
    where = "at the first step"
    if found.last_common_seq is not None:
        a, b = found.last_common_seq
        where = f"after {plural(found.after_steps, 'step')} alike (A {a:,}, B {b:,})"
    painter.line([Span(f"first difference {where}", "warn")])
    counts = (
        f"{diff.same:,} alike, {diff.changed:,} in other words, "
        f"{diff.only_a:,} only in A, {diff.only_b:,} only in B"
    )
    exact = "" if diff.is_exact else " (too long to align in the best way)"
    painter.line([Span(counts + exact, "dim")])


def _table(painter: Painter, diff: Diff) -> None:
    rows = [("", "A", "B", "B - A"), *_figures(diff.a, diff.b)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    painter.line()
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        painter.line([Span("  ".join(cells), "plain" if number else "dim")])
    for letter, side in (("A", diff.a), ("B", diff.b)):
        answer = painter.clean(side.answer) or "(no answer)"
        line = f"answer of {letter}: {answer}"
        painter.line([Span(painter.fit(line, painter.width or len(line)))])


def _figures(a: Side, b: Side) -> Iterator[tuple[str, str, str, str]]:
    yield "outcome", a.status, b.status, "" if a.status == b.status else "differs"
    longer = b.duration_ns - a.duration_ns
    sign = "-" if longer < 0 else "+"
    yield (
        "time",
        duration(a.duration_ns),
        duration(b.duration_ns),
        f"{sign}{duration(abs(longer))}" if longer else "",
    )
    for name in (
        *("events", "turns", "model_calls", "tool_calls", "input_tokens", "output_tokens"),
        "failures",
    ):
        yield _counted(name.replace("_", " "), getattr(a, name), getattr(b, name))
    if a.cost is not None and b.cost is not None:
        dearer = b.cost - a.cost
        yield (
            "cost",
            money(a.cost, a.currency),
            money(b.cost, b.currency),
            f"{'-' if dearer < 0 else '+'}{money(abs(dearer), b.currency)}" if dearer else "",
        )
    if a.unpriced_calls or b.unpriced_calls:
        yield _counted("calls without price", a.unpriced_calls, b.unpriced_calls)
    for agent in dict.fromkeys((*a.agents, *b.agents)):
        ours, theirs = a.agents.get(agent, 0), b.agents.get(agent, 0)
        if ours != theirs:
            yield _counted(f"tokens of {agent}", ours, theirs)
    for name in sorted({*a.findings, *b.findings}):
        yield _counted(f"finding {name}", a.findings.get(name, 0), b.findings.get(name, 0))


def _counted(name: str, a: int, b: int) -> tuple[str, str, str, str]:
    return name, f"{a:,}", f"{b:,}", f"{b - a:+,}" if a != b else ""


def _chosen(rows: Sequence[Row]) -> Iterator[Row | int]:
    """Yield what differs with what stands around it; for what is left out, how much that is."""
    shown = skipped = 0
    different = [index for index, row in enumerate(rows) if row.kind is not RowKind.SAME]
    near: set[int] = set()
    for index in different[:MAX_SHOWN]:
        near.update(range(index - CONTEXT, index + CONTEXT + 1))
    for index, row in enumerate(rows):
        if index not in near or shown >= MAX_SHOWN:
            skipped += 1
            continue
        if skipped:
            yield skipped
            skipped = 0
        shown += 1
        yield row
    if skipped:
        yield skipped


def _step(step: StepLine) -> str:
    return f"{offset(step.at_ns):>7} #{step.seq:,} {step.agent} {step.text}"


def _below(painter: Painter, row: Row) -> None:
    sign, style = _SIGNS[row.kind]
    for letter, step in (("A", row.a), ("B", row.b)):
        if step is None or (row.kind is RowKind.SAME and letter == "B"):
            continue
        mark = f"{sign}{letter if row.kind is RowKind.CHANGED else ' '} "
        text = painter.clean(_step(step))
        room = len(text) if painter.width is None else painter.width - len(mark)
        painter.line([Span(mark, style), Span(painter.fit(text, room), style)])


def _beside(painter: Painter, row: Row) -> None:
    sign, style = _SIGNS[row.kind]
    width = painter.width if painter.width is not None else 2 * _MIN_SIDE * 2
    room = (width - 3) // 2
    cells: list[str] = []
    for step in (row.a, row.b):
        text = painter.fit(painter.clean(_step(step)), room) if step is not None else ""
        cells.append(text + " " * max(room - painter.cells(text), 0))
    painter.line([Span(cells[0], style), Span(f" {sign}", style), Span(cells[1].rstrip(), style)])
