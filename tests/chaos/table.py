"""Verdicts as text for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.chaos.verdict import Verdict

_COLUMNS: Final = (
    ("acked", "acknowledged"),
    ("found", "found"),
    ("doubled", "doubled"),
    ("unknown", "unknown"),
    ("(in log)", "unknown_found"),
    ("refused", "refused"),
    ("mentions", "mentions"),
    ("handled", "handled"),
    ("dead", "dead_lettered"),
    ("over", "ended_badly"),
    ("tasks", "tasks"),
    ("ended", "ended"),
    ("resumable", "resumable"),
    ("replayed", "replayed"),
    ("breaches", "breaches"),
)
_SHOWN: Final = 20


def table(rows: Sequence[tuple[str, Verdict]]) -> str:
    """Return one line for each scenario, under a head."""
    width = max((len(name) for name, _ in rows), default=8)
    head = [f"{'scenario':<{width}}", *(title for title, _ in _COLUMNS)]
    lines = ["  ".join(head)]
    for name, verdict in rows:
        cells = [f"{getattr(verdict, field):>{len(title)}}" for title, field in _COLUMNS]
        lines.append("  ".join([f"{name:<{width}}", *cells]))
    return "\n".join(lines)


def findings(verdict: Verdict) -> list[str]:
    """Return a line for each of the first breaches."""
    lines = [
        f"{one.breach.value}: {f'{one.task}: ' if one.task else ''}{one.text}"
        for one in verdict.findings[:_SHOWN]
    ]
    more = verdict.breaches - len(lines)
    return [*lines, *([f"and {more:,} more"] if more > 0 else [])]


def report(verdict: Verdict) -> str:
    """Return a table of one line, and the breaches below it."""
    return "\n".join([table([("log", verdict)]), *findings(verdict)])
