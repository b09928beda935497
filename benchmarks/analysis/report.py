"""The tables of a measurement, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.analysis.data import LabelledRun, agentrx, hash_of, tau_bench, who_and_when
from benchmarks.analysis.firing import chance, firings
from benchmarks.analysis.predictors import (
    Score,
    averaged,
    constants,
    cross_validated,
    followed,
    shown,
    transferred,
)

SPLITS: Final = 5
"""Ways to part the runs for the cross-validation; how a run is parted moves the figures."""

MAX_SPLITS: Final = 100

PUBLISHED: Final = (
    ("published: GPT-4o, all at once, without the answer", 51.12, 13.53),
    ("published: GPT-4o, all at once, with the answer", 54.33, 12.50),
    ("published: GPT-4o, step by step, with the answer", 35.20, 25.51),
    ("published: GPT-4o, binary search, with the answer", 44.13, 23.98),
)
"""Who&When, table 1 of arXiv 2505.00212; agent and step, in percent."""


class Measured(msgspec.Struct):
    """Everything that was looked at."""

    digest: str
    who_and_when: list[LabelledRun]
    agentrx: list[LabelledRun]
    tau_bench: list[LabelledRun]


def measure(folder: Path) -> Measured:
    """Import and analyse every run."""
    return Measured(
        hash_of(folder),
        list(who_and_when(folder)),
        list(agentrx(folder)),
        list(tau_bench(folder)),
    )


def tables(measured: Measured, parted: int = SPLITS) -> str:
    """Return every table, with the runs parted for the cross-validation in so many ways."""
    teams = measured.who_and_when
    labelled = [run for run in measured.agentrx if run.label is not None]
    splits = [cross_validated(teams, split=number) for number in range(parted)]
    rows = [
        *constants(teams),
        followed(teams),
        averaged([one for one, _ in splits]),
        averaged([one for _, one in splits]),
        shown("ranking of steps, as built in (fitted on these very runs)", teams),
    ]
    single = [
        *constants(labelled),
        followed(labelled),
        cross_validated(labelled)[0],
        transferred("ranking of steps, as built in (fitted on Who&When)", labelled),
    ]
    return "\n\n".join(
        [
            f"Data: sha256 `{measured.digest[:16]}…` over all files read.",
            f"### Who&When, {len(teams)} failed runs of teams",
            _scores(rows, published=True),
            _spread([one for one, _ in splits]),
            f"### AgentRx tau-retail, {len(labelled)} runs of one agent with a labelled cause",
            _scores(single),
            "### What a finding says of a run, and of a step",
            _firings("Who&When", teams),
            _firings("AgentRx tau-retail", measured.agentrx),
            _firings("tau-bench airline", measured.tau_bench),
        ]
    )


def _scores(rows: Sequence[Score], *, published: bool = False) -> str:
    lines = [
        "| who is blamed | agent | step | step ±1 | step ±3 | step among three |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row.agent, row.step, row.near1, row.near3, row.top3]
        lines.append(f"| {row.name} | {' | '.join(_cell(one, row.runs) for one in cells)} |")
    if published:
        lines += [
            f"| {name} | {agent:.1f} % | {step:.1f} % | - | - | - |"
            for name, agent, step in PUBLISHED
        ]
    return "\n".join(lines)


def _spread(splits: Sequence[Score]) -> str:
    steps = sorted(int(one.step or 0) for one in splits)
    agents = sorted(int(one.agent or 0) for one in splits)
    told = f"steps {steps[0]} to {steps[-1]}, agents {agents[0]} to {agents[-1]}"
    many = "one split" if len(splits) == 1 else f"{len(splits)} splits"
    return f"Over {many} into tenths the ranking names right: {told}."


def _cell(count: float | None, runs: int) -> str:
    if count is None:
        return "-"
    told = f"{count:.0f}" if count == int(count) else f"{count:.1f}"
    return f"{told} ({count / runs:.1%})".replace("%", " %")


def _firings(name: str, runs: Sequence[LabelledRun]) -> str:
    failed = sum(run.failed for run in runs)
    wrong, steps = chance(runs)
    head = f"{name}: {failed} of {len(runs)} runs failed ({_share(failed, len(runs))})"
    if steps:
        head += f"; {wrong} of {steps} steps of labelled runs are wrong ({_share(wrong, steps)})"
    lines = [
        f"{head}.",
        "",
        "| detector | runs | precision | recall | steps | exact | within one |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in firings(runs):
        cells = [
            one.detector,
            str(one.runs),
            f"{_share(one.failed, one.runs)} ({one.failed})",
            _share(one.failed, failed),
            str(one.steps) if steps else "-",
            f"{one.exact} ({_share(one.exact, one.steps)})" if one.steps else "-",
            f"{one.near} ({_share(one.near, one.steps)})" if one.steps else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(count: int, of: int) -> str:
    return f"{count / of:.2f}" if of else "-"
