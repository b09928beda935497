"""Findings on paper: marks in the tree at their step, and the sections below it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from threadbus.replay.finding import Finding, FindingKind, Judgement
from threadbus.replay.layout import Row, write_row
from threadbus.replay.paint import Painter, Span
from threadbus.replay.story import ModelStep, SaidStep, Timeline, ToolStep, Turn
from threadbus.replay.text import duration, first_line, offset, plural

MAX_LISTED: Final = 40
"""Findings that are listed, the gravest first; how many more there are is said."""

MAX_MARKS: Final = 3
"""Findings that are marked at one step."""

_STYLES: Final = {
    FindingKind.VIOLATION: "bad",
    FindingKind.SYMPTOM: "warn",
    FindingKind.HINT: "dim",
}
_GRAVEST_FIRST: Final = (FindingKind.VIOLATION, FindingKind.SYMPTOM, FindingKind.HINT)


class Marks:
    """Findings by the step that they are shown at: their own, or else the last one before it."""

    def __init__(self, painter: Painter, timeline: Timeline, *, full: bool = False) -> None:
        self._painter = painter
        self._full = full
        self._at: dict[int, list[Finding]] = {}
        if not timeline.findings:
            return
        seqs = sorted(_seqs(timeline))
        for finding in timeline.findings:
            place = bisect_right(seqs, finding.seq) - 1
            if place >= 0:
                self._at.setdefault(seqs[place], []).append(finding)

    def write(self, seq: int, branches: str) -> None:
        """Write what was found at a step below it, once.

        Args:
            seq: the step.
            branches: what stands before the lines that it goes on in.
        """
        findings = self._at.pop(seq, None)
        if findings is None:
            return
        rows = [self._row(finding) for finding in findings[:MAX_MARKS]]
        if len(findings) > MAX_MARKS:
            more = plural(len(findings) - MAX_MARKS, "more finding")
            rows.append(Row([Span(f"! {more}", "dim")]))
        for row in rows:
            write_row(self._painter, "", f"{branches}  ", f"{branches}    ", row)

    def _row(self, finding: Finding) -> Row:
        style = _STYLES[finding.kind]
        name = self._painter.clean(finding.name)
        text = self._painter.clean(first_line(finding.text, 240))
        head = [Span(f"! {finding.detector} {name}", style)]
        return Row(head, (), text, text_style=style, wraps=self._full)


def _seqs(timeline: Timeline) -> Iterator[int]:
    for thread in timeline.threads.values():
        for entry in thread.entries:
            if isinstance(entry, Turn):
                yield from [step.seq for step in entry.steps]
            else:
                yield entry.seq


def write_findings(
    timeline: Timeline,
    heading: Callable[[str, str], None],
    line: Callable[[str, str], None],
) -> None:
    """Write what was found, and the suspected cause.

    Args:
        timeline: the run.
        heading: writes a heading in a style, made harmless.
        line: writes a line in a style, made harmless.
    """
    findings = timeline.findings
    start = timeline.opened_at or timeline.first_at
    if findings:
        counts = [
            plural(sum(one.kind is kind for one in findings), kind.value)
            for kind in _GRAVEST_FIRST
            if any(one.kind is kind for one in findings)
        ]
        heading(f"Findings: {', '.join(counts)}", "bold")
        ranked = sorted(findings, key=lambda one: (_GRAVEST_FIRST.index(one.kind), one.seq))
        for one in ranked[:MAX_LISTED]:
            when = offset(one.at - start) if one.at else ""
            line(
                f"{one.kind.value} {one.detector} {one.name} at {one.seq} ({when}): {one.text}",
                _STYLES[one.kind],
            )
        if len(ranked) > MAX_LISTED:
            line(f"and {len(ranked) - MAX_LISTED:,} more", "dim")
    if timeline.judgement is not None:
        _write_judgement(timeline.judgement, line)
    if timeline.suspects:
        heading("Suspected cause (how sure, from 0 to 1)", "bold")
        for suspect in timeline.suspects:
            what = _what(timeline, suspect.seq)
            line(f"{suspect.score:.2f} {suspect.agent} at {suspect.seq}{what}", "warn")
            for reason in suspect.reasons[:2]:
                line(f"because {reason}", "dim")


def _write_judgement(judgement: Judgement, line: Callable[[str, str], None]) -> None:
    facts = [f"judged by {judgement.model} in {duration(judgement.duration_ns)}"]
    facts.append(f"{judgement.input_tokens:,} tokens in, {judgement.output_tokens:,} out")
    if judgement.cost is not None:
        facts.append(f"cost {judgement.cost:.4f}")
    if judgement.problem:
        facts.append(judgement.problem)
    line("; ".join(facts), "warn" if judgement.problem else "dim")


def _what(timeline: Timeline, seq: int) -> str:
    """Return what the step at *seq* is, as ``, tool run_python``."""
    for thread in timeline.threads.values():
        for entry in thread.entries:
            steps = entry.steps if isinstance(entry, Turn) else [entry]
            for step in steps:
                if step.seq != seq:
                    continue
                if isinstance(step, SaidStep):
                    said = first_line(step.text, 80)
                    return f", {step.type}: {said}" if said else f", {step.type}"
                if isinstance(step, ToolStep):
                    return f", tool {first_line(step.tool, 60)}"
                return ", model" if isinstance(step, ModelStep) else ", failed attempt"
    return ""
