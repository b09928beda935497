"""Who is blamed, and where: constants that need no analysis, and what the analysis says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from benchmarks.analysis.data import LabelledRun, step_of
from benchmarks.analysis.fitting import FOLDS, fit, fold_of
from threadbus.replay.findings.acts import Act
from threadbus.replay.findings.ranking import WEIGHTS, Features, features_of, shares_of

Blame: TypeAlias = tuple[str, int | None]
"""An agent, and a step where one is named."""

TOP: int = 3


class Score(msgspec.Struct):
    """How often a predictor is right, in runs."""

    name: str
    runs: int
    agent: float | None = None
    step: float | None = None
    near1: float | None = None
    near3: float | None = None
    top3: float | None = None


def scored(name: str, runs: Sequence[LabelledRun], blames: Sequence[Sequence[Blame]]) -> Score:
    """Compare what is blamed, the likeliest first, with the labels."""
    score = Score(name, len(runs), 0, 0, 0, 0, 0)
    hits = Counter[str]()
    for run, blamed in zip(runs, blames, strict=True):
        label = run.label
        if label is None or not blamed:
            continue
        agent, step = blamed[0]
        hits["agent"] += agent == label.agent
        if step is not None:
            hits["step"] += step == label.step
            hits["near1"] += abs(step - label.step) <= 1
            hits["near3"] += abs(step - label.step) <= 3
        hits["top3"] += label.step in [one for _, one in blamed[:TOP]]
    score.agent, score.step = hits["agent"], hits["step"]
    score.near1, score.near3, score.top3 = hits["near1"], hits["near3"], hits["top3"]
    return score


def constants(runs: Sequence[LabelledRun]) -> list[Score]:
    """Return what needs no analysis: the scale on which every other figure is to be read."""
    speakers = [_speakers(run) for run in runs]
    longest = max(len(found) for found in speakers)
    steps = [
        scored(
            f"always step {at}",
            runs,
            [[(found[min(at, len(found) - 1)], at)] for found in speakers],
        )
        for at in range(longest)
    ]
    best = max(steps, key=lambda score: score.step or 0)
    best.top3 = None
    frequent = scored(
        "the most frequent speaker",
        runs,
        [[(Counter(_said(run)).most_common(1)[0][0], None)] for run in runs],
    )
    frequent.step = frequent.near1 = frequent.near3 = frequent.top3 = None
    last = scored("the last step", runs, [[(found[-1], len(found) - 1)] for found in speakers])
    failing = scored(
        "the author of the first failing execution, else step 1",
        runs,
        [[_first_failing(run, found)] for run, found in zip(runs, speakers, strict=True)],
    )
    last.top3 = failing.top3 = None
    return [_random(runs), frequent, best, last, failing]


def followed(runs: Sequence[LabelledRun]) -> Score:
    """Score what the causes of the findings lead back to."""
    return scored(
        "findings followed upstream (weights set by hand)",
        runs,
        [[(str(one.agent), step_of(run.run, one.seq)) for one in run.followed] for run in runs],
    )


def shown(name: str, runs: Sequence[LabelledRun]) -> Score:
    """Score what ``busreplay`` shows."""
    return scored(
        name,
        runs,
        [
            [(str(one.agent), step_of(run.run, one.seq)) for one in run.analysis.suspects]
            for run in runs
        ],
    )


def cross_validated(
    runs: Sequence[LabelledRun], folds: int = FOLDS, *, split: int = 0
) -> tuple[Score, Score]:
    """Score the ranking with weights that were fitted on other runs only.

    Args:
        runs: all of them.
        folds: into so many parts; each is left out once.
        split: which of several ways to part them.

    Returns:
        The score of the likeliest steps, and that of blaming the agent whose steps have the
        largest share together.
    """
    tables = [features_of(run.acts) for run in runs]
    blames: list[list[Blame]] = [[] for _ in runs]
    agents: list[list[Blame]] = [[] for _ in runs]
    for fold in range(folds):
        inside = [at for at, run in enumerate(runs) if fold_of(run.run.name, folds, split) == fold]
        others = [at for at in range(len(runs)) if at not in inside]
        weights = fitted([runs[at] for at in others])
        for at in inside:
            blames[at] = _ranked(runs[at], tables[at], weights)
            agents[at] = [(_most(runs[at], shares_of(tables[at], weights)), None)]
    by_step = scored(f"ranking of steps, {folds}-fold cross-validated", runs, blames)
    by_agent = scored("the same, by the sum over each agent's steps", runs, agents)
    by_agent.step = by_agent.near1 = by_agent.near3 = by_agent.top3 = None
    return by_step, by_agent


def averaged(scores: Sequence[Score]) -> Score:
    """Return the mean over several splits."""

    def mean(name: str) -> float | None:
        values = [getattr(score, name) for score in scores]
        return None if None in values else sum(values) / len(values)

    first = scores[0]
    names = ("agent", "step", "near1", "near3", "top3")
    name = first.name if len(scores) == 1 else f"{first.name}, mean of {len(scores)} splits"
    return Score(name, first.runs, *[mean(one) for one in names])


def _most(run: LabelledRun, shares: Sequence[float]) -> str:
    total: dict[str, float] = {}
    for act, share in zip(run.acts, shares, strict=True):
        total[act.agent] = total.get(act.agent, 0.0) + share
    return max(total, key=lambda name: total[name])


def fitted(runs: Sequence[LabelledRun]) -> Features:
    """Return the weights that fit the labels of *runs* best."""
    return fit(
        [
            (features_of(run.acts), at)
            for run in runs
            if run.label is not None and (at := _act_at(run, run.label.step)) is not None
        ]
    )


def transferred(name: str, runs: Sequence[LabelledRun]) -> Score:
    """Score the weights that stand in the code on runs that they were not fitted on."""
    blames = [_ranked(run, features_of(run.acts), WEIGHTS) for run in runs]
    return scored(name, runs, blames)


def _ranked(run: LabelledRun, features: Sequence[Features], weights: Features) -> list[Blame]:
    shares = shares_of(features, weights)
    order = sorted(range(len(shares)), key=lambda at: (-round(shares[at], 6), at))
    return [_blame(run, run.acts[at]) for at in order[:TOP]]


def _blame(run: LabelledRun, act: Act) -> Blame:
    return act.agent, step_of(run.run, act.ref.seq)


def _act_at(run: LabelledRun, step: int) -> int | None:
    return next(
        (at for at, act in enumerate(run.acts) if step_of(run.run, act.ref.seq) == step), None
    )


def _speakers(run: LabelledRun) -> list[str]:
    """Return who is behind each message of the other log."""
    by_seq = {entry.seq: str(entry.event.sender) for entry in run.run.entries}
    return [by_seq.get(seq, "") for seq in run.run.steps]


def _said(run: LabelledRun) -> list[str]:
    said = [str(act.agent) for act in run.acts if not act.is_tool and act.agent != "user"]
    return said or ["user"]


def _first_failing(run: LabelledRun, speakers: Sequence[str]) -> Blame:
    for at, act in enumerate(run.acts):
        if act.is_error and at:
            return _blame(run, run.acts[at - 1])
    step = min(1, len(speakers) - 1)
    return speakers[step], step


def _random(runs: Sequence[LabelledRun]) -> Score:
    """Return what any agent and any step would hit on average."""
    score = Score("any agent and any step, on average", len(runs), 0, 0, 0, 0, 0)
    for run in runs:
        label, count = run.label, len(run.run.steps)
        if label is None:
            continue
        agents = set(_said(run))
        score.agent = (score.agent or 0) + (label.agent in agents) / len(agents)
        score.step = (score.step or 0) + 1 / count
        for reach in (1, 3):
            inside = sum(abs(at - label.step) <= reach for at in range(count)) / count
            if reach == 1:
                score.near1 = (score.near1 or 0) + inside
            else:
                score.near3 = (score.near3 or 0) + inside
        score.top3 = (score.top3 or 0) + min(TOP / count, 1)
    return score
