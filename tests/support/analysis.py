"""Analyse made-up runs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.story import Story
from threadbus.replay import Finding, LogItem, TimelineFold
from threadbus.replay.findings import Analyser, Analysis, load_settings


def analyse(run: Story | Sequence[LogItem], *overrides: str, now: int | None = None) -> Analysis:
    """Return what the detectors say of a run, with some settings overridden."""
    items = run.log if isinstance(run, Story) else run
    fold, analyser = TimelineFold(), Analyser(load_settings(overrides=overrides))
    for item in items:
        fold.apply(item)
        analyser.apply(item)
    return analyser.finish(fold.timeline, now)


def found(
    detector: str,
    run: Story | Sequence[LogItem],
    *overrides: str,
    now: int | None = None,
) -> list[Finding]:
    """Return what one detector says of a run."""
    findings = analyse(run, *overrides, now=now).findings
    return [finding for finding in findings if finding.detector == detector]
