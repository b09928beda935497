"""From findings to the steps that may have caused them.

Each symptom and violation points to an event; from there causes are followed upstream: what the
event answers, what it refers to, the call that a result belongs to. An event is the more suspect
the more findings lead to it, the graver they are, the nearer it is, and the more its kind is one
that goes wrong. Nothing is learned; every weight stands in the tables below.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from threadbus.replay.finding import Finding, FindingKind, Suspect
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.scene import Scene
from threadbus.schemas import EventId

MAX_SUSPECTS: Final = 3
"""Steps that are named."""

MAX_FOLLOWED: Final = 400
"""Findings whose causes are followed."""

MAX_UPSTREAM: Final = 64
"""Events that are looked at above one finding."""

MAX_SCORE: Final = 0.9
"""A log alone is never sure."""

MIN_SCORE: Final = 0.05
"""Less is not worth a word."""

KIND_WEIGHTS: Final = {
    FindingKind.VIOLATION: 0.5,
    FindingKind.SYMPTOM: 0.35,
    FindingKind.HINT: 0.0,
}
"""What a finding counts for the event that it is about."""

DETECTOR_WEIGHTS: Final = {
    # What goes wrong first: errors, refusals, deaths.
    "E1": 1.3,
    "E2": 1.3,
    "E3": 1.3,
    "F1": 1.3,
    "F2": 1.2,
    "F4": 0.6,
    "I2": 1.4,
    "LB": 1.2,
    # What others suffer from.
    "B2": 0.7,
    "F3": 0.3,
    "T1": 0.8,
    "T2": 0.4,
    "U1": 0.8,
    "U2": 0.8,
    "U4": 0.6,
}
"""Times that; 1 where a detector is not named."""

EVENT_WEIGHTS: Final = {
    "assignment.failed": 1.0,
    "assignment.finished": 0.8,
    "assignment.made": 0.8,
    "answer.submitted": 0.7,
    "consensus.failed": 0.7,
    "consensus.reached": 0.8,
    "critique.given": 0.7,
    "handling.ended": 0.2,
    "handling.failed": 1.1,
    "handling.started": 0.4,
    "mention.dead_lettered": 0.7,
    "mention.received": 0.3,
    "mention.stored": 0.3,
    "message.posted": 0.8,
    "model.called": 0.5,
    "plan.proposed": 0.8,
    "plan.revised": 0.8,
    "task.closed": 0.5,
    "task.opened": 0.1,
    "tool.called": 0.7,
    "tool.returned": 0.9,
}
"""How likely a kind of event is where something begins to go wrong; 0.6 for others."""

ABOUT_WEIGHT: Final = 0.8
"""The least that the kind of an event counts where a finding is about the event itself."""

STEP_WEIGHT: Final = 0.75
"""What is left of the weight with each step upstream."""

EVIDENCE_WEIGHT: Final = 0.8
"""What an event counts that a finding names as evidence, beside the one that it is about."""

OPENER_WEIGHT: Final = 0.15
"""What whoever opened the task is suspected of, as against an agent."""


class _Candidate(msgspec.Struct):
    ref: Ref
    innocence: float = 1.0
    findings: dict[str, str] = {}
    """Detector's id → how the first of its findings leads here."""
    detected: int = 0
    """Findings that are about the event itself."""


def suspects_of(findings: Sequence[Finding], scene: Scene) -> tuple[Suspect, ...]:
    """Return the steps that may have caused *findings*, the likeliest first."""
    candidates: dict[EventId, _Candidate] = {}
    counts: dict[str, int] = {}
    followed = 0
    for finding in findings:
        weight = KIND_WEIGHTS[finding.kind] * DETECTOR_WEIGHTS.get(finding.detector, 1.0)
        if not weight or not finding.evidence or followed >= MAX_FOLLOWED:
            continue
        followed += 1
        # The tenth finding of one detector says little that the first did not.
        count = counts[finding.detector] = counts.get(finding.detector, 0) + 1
        weight /= count
        for ref, depth, is_evidence in _upstream(finding, scene):
            likely = EVENT_WEIGHTS.get(ref.kind, 0.6)
            is_about = depth == 0 and not is_evidence
            if is_about:
                likely = max(likely, ABOUT_WEIGHT)
            share = weight * STEP_WEIGHT**depth * likely
            if is_evidence:
                share *= EVIDENCE_WEIGHT
            if not scene.is_agent(ref.sender):
                share *= OPENER_WEIGHT
            candidate = candidates.setdefault(ref.id, _Candidate(ref))
            candidate.innocence *= 1 - min(share, MAX_SCORE)
            candidate.detected += is_about
            candidate.findings.setdefault(finding.detector, _reason(finding, is_about=is_about))
    suspected = [one for one in candidates.values() if 1 - one.innocence >= MIN_SCORE]
    return tuple(_suspect(one) for one in sorted(suspected, key=_rank)[:MAX_SUSPECTS])


def _rank(candidate: _Candidate) -> tuple[float, int]:
    # Of two that are equally suspect the earlier one came first.
    return round(candidate.innocence, 3), candidate.ref.seq


def _upstream(finding: Finding, scene: Scene) -> Iterator[tuple[Ref, int, bool]]:
    """Return the events above a finding, each once, with the number of steps up to it."""
    queue: deque[tuple[EventId, int, bool]] = deque()
    for number, event in enumerate(finding.evidence):
        queue.append((event, 0, number > 0))
    done: set[EventId] = set()
    while queue and len(done) < MAX_UPSTREAM:
        event, depth, is_evidence = queue.popleft()
        ref = scene.get(event)
        if ref is None or event in done:
            continue
        done.add(event)
        yield ref, depth, is_evidence
        for above in (ref.about, ref.cause):
            if above is not None:
                queue.append((above, depth + 1, is_evidence))


def _reason(finding: Finding, *, is_about: bool) -> str:
    if is_about:
        return f"{finding.detector} is about it: {finding.text}"
    return f"{finding.detector} at {finding.seq} depends on it: {finding.text}"


def _suspect(candidate: _Candidate) -> Suspect:
    ref = candidate.ref
    return Suspect(
        seq=ref.seq,
        event=ref.id,
        at=ref.at,
        score=round(min(1 - candidate.innocence, MAX_SCORE), 2),
        reasons=tuple(list(candidate.findings.values())[:4]),
        agent=ref.sender,
        thread=ref.thread,
        findings=tuple(candidate.findings),
    )
