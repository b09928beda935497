"""Which step of a conversation went wrong, where only its words and its tools tell.

In a log of another system nobody was woken, nothing was acknowledged, and no cause is recorded:
what findings lead back to is little. What is left is what each step looks like: whether its code
failed, whether it invents data, whether the next one objects or takes it as it is. Each feature
below is a number from 0 to about 1; a step's score is the weighted sum, and over the steps of one
run the scores become shares by softmax. The weights were fitted by ``benchmarks.analysis`` on runs
that all failed; so a share says where the mistake is likely to be *if* there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Final, TypeAlias

from threadbus.replay.finding import Suspect
from threadbus.replay.findings.acts import Act

Features: TypeAlias = dict[str, float]

MAX_SUSPECTS: Final = 3
"""Steps that are named."""

MAX_SHARE: Final = 0.9
"""A log alone is never sure."""

WEIGHTS: Final[Features] = {
    "tool": -1.48,
    "opens": -0.49,
    "opens_ok": 2.23,
    "opens_fails": -1.89,
    "opens_broken": 4.09,
    "opens_errors": -0.74,
    "late": -0.88,
    "last": -1.87,
    "last_said": 0.79,
    "fails": -0.79,
    "works": -0.02,
    "brings_nothing": 0.97,
    "nothing_to_run": -1.17,
    "code_not_run": 1.25,
    "words_only": 0.34,
    "first_failure": 1.64,
    "first_run": 0.36,
    "second_no_run": 1.01,
    "fails_again": -3.4,
    "ends": 0.46,
    "short": -1.12,
    "invents": 2.66,
    "doubts": 0.28,
    "concludes": 0.06,
    "hands_on": 1.44,
    "asserts": 1.0,
    "figures": 0.99,
    "after_failure": -1.3,
    "after_result": -0.82,
    "after_no_run": -0.66,
    "then_doubts": 0.36,
    "then_concludes": 1.47,
    "then_same": 0.46,
}
"""What each feature counts."""

WORDS: Final = {
    "tool": "it is what a tool brought",
    "opens": "it opens the run",
    "opens_ok": "it opens the run, and its code runs without an error",
    "opens_fails": "it opens the run, and its code fails",
    "opens_broken": "it opens the run with something that had failed before",
    "opens_errors": "it opens a run in which code fails",
    "late": "it stands late in the run",
    "last": "it is the last step",
    "last_said": "it is the last thing said",
    "fails": "its code fails",
    "works": "its code brings a result",
    "brings_nothing": "its code runs and brings nothing",
    "nothing_to_run": "the tool finds nothing to run in it",
    "code_not_run": "it has code that is not run",
    "words_only": "it says something without running anything",
    "first_failure": "its code is the first that fails",
    "first_run": "its code is the first that runs",
    "second_no_run": "it is the first reply of a run without any tool",
    "fails_again": "code of the same agent fails again later",
    "ends": "it says that all is done",
    "short": "it says next to nothing",
    "invents": "it assumes, simulates or makes up data",
    "doubts": "it speaks of errors",
    "concludes": "it concludes or confirms",
    "hands_on": "it asks others to do it, or to do it by hand",
    "asserts": "it states facts",
    "figures": "it states figures",
    "after_failure": "a tool had failed just before",
    "after_result": "a tool had just brought a result",
    "after_no_run": "nothing had been run just before",
    "then_doubts": "the next step speaks of errors",
    "then_concludes": "the next step concludes from it, or confirms it",
    "then_same": "the same agent speaks next",
}
"""What a feature is called in a reason, and the features that there are."""


def features_of(acts: Sequence[Act]) -> list[Features]:
    """Return the features of each act of a run; those that are 0 are left out."""
    count = len(acts)
    failures = [at for at, act in enumerate(acts) if act.is_error]
    runs = [at for at, act in enumerate(acts) if act.is_tool and not act.no_code]
    last_said = max([at for at, act in enumerate(acts) if not act.is_tool], default=-1)
    left: dict[str, int] = {}
    for at in failures:
        left[acts[at].agent] = left.get(acts[at].agent, 0) + 1
    said_next: list[Act | None] = [None] * count
    following: Act | None = None
    for at in range(count - 1, -1, -1):
        said_next[at] = following
        if not acts[at].is_tool:
            following = acts[at]
    found: list[Features] = []
    for at, act in enumerate(acts):
        then = acts[at + 1] if at + 1 < count and acts[at + 1].is_tool else None
        if act.is_error:
            left[act.agent] -= 1
        found.append(
            {
                **_own(act, at, then),
                **_around(act, acts[at - 1] if at else None, said_next[at]),
                **_place(act, at, count, then, has_failures=bool(failures), has_runs=bool(runs)),
                "last_said": float(at == last_said),
                "first_failure": float(bool(failures) and at == failures[0] - 1),
                "first_run": float(bool(runs) and at == runs[0] - 1),
                "fails_again": min(
                    max(left.get(act.agent, 0) - (then is not None and then.is_error), 0), 3
                )
                / 3,
            }
        )
    return [{name: value for name, value in one.items() if value} for one in found]


def _own(act: Act, at: int, then: Act | None) -> Features:
    """What it says and does."""
    if act.is_tool:
        return {"tool": 1.0}
    marks = {name: min(count, 4) / 4 for name, count in act.marks.items()}
    return {
        "code_not_run": float(act.has_code and then is None),
        "words_only": float(not act.has_code and at > 0),
        "ends": float(act.ends),
        "short": float(act.chars < 60),
        "invents": marks.get("invents", 0.0),
        "doubts": marks.get("doubts", 0.0),
        "concludes": marks.get("concludes", 0.0),
        "hands_on": marks.get("hands", 0.0),
        "asserts": marks.get("knows", 0.0),
        "figures": log(1 + act.digits) / 5 if at else 0.0,
    }


def _around(act: Act, before: Act | None, said_next: Act | None) -> Features:
    """What stands before and after it."""
    found: Features = {}
    if before is not None and before.is_tool:
        found["after_failure"] = float(before.is_error)
        found["after_no_run"] = float(before.no_code)
        found["after_result"] = float(not before.is_error and not before.no_code)
    if said_next is not None:
        found["then_doubts"] = min(said_next.marks.get("doubts", 0), 4) / 4
        found["then_concludes"] = min(said_next.marks.get("concludes", 0), 4) / 4
        found["then_same"] = float(said_next.agent == act.agent)
    return found


def _place(
    act: Act, at: int, count: int, then: Act | None, *, has_failures: bool, has_runs: bool
) -> Features:
    """Where it stands, and what came of its code."""
    found: Features = {"opens": float(at == 0), "late": log(1 + at) / 5}
    found["last"] = float(at == count - 1)
    found["second_no_run"] = float(at == 1 and not has_runs)
    found["opens_errors"] = float(at == 0 and has_failures)
    found["opens_broken"] = float(at == 0 and act.marks.get("broken", 0) > 0)
    if then is not None:
        is_ok = not then.is_error and not then.no_code
        found["fails"] = float(then.is_error)
        found["works"] = float(is_ok and not then.is_empty)
        found["brings_nothing"] = float(then.is_empty)
        found["nothing_to_run"] = float(then.no_code)
        found["opens_fails"] = float(at == 0 and then.is_error)
        found["opens_ok"] = float(at == 0 and not then.is_error)
    return found


def shares_of(features: Sequence[Features], weights: Features = WEIGHTS) -> list[float]:
    """Return how likely each act is the one that went wrong, if one did; together 1."""
    scores = [
        sum(weights.get(name, 0.0) * value for name, value in one.items()) for one in features
    ]
    top = max(scores, default=0.0)
    raised = [exp(score - top) for score in scores]
    whole = sum(raised)
    return [one / whole for one in raised]


def suspects_among(acts: Sequence[Act]) -> tuple[Suspect, ...]:
    """Return the acts that most likely went wrong, if one did, the likeliest first."""
    features = features_of(acts)
    shares = shares_of(features)
    order = sorted(range(len(acts)), key=lambda at: (-round(shares[at], 6), at))
    found: list[Suspect] = []
    for at in order[:MAX_SUSPECTS]:
        ref = acts[at].ref
        counts = sorted(
            ((WEIGHTS.get(name, 0.0) * value, name) for name, value in features[at].items()),
            reverse=True,
        )
        found.append(
            Suspect(
                seq=ref.seq,
                event=ref.id,
                at=ref.at,
                score=round(min(shares[at], MAX_SHARE), 2),
                reasons=tuple(WORDS[name] for count, name in counts[:3] if count > 0),
                agent=ref.sender,
                thread=ref.thread,
            )
        )
    return tuple(found)
