"""Plans: made over and over, or left aside."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.texts import norm
from threadbus.replay.kept import Plan
from threadbus.replay.text import first_line
from threadbus.schemas import (
    AgentName,
    ArtifactAdded,
    AssignmentFinished,
    AssignmentMade,
    PlanProposed,
    PlanRevised,
    TaskStatus,
    ThreadId,
)

_MAX_THREADS: Final = 10_000
_MAX_VERSIONS: Final = 1_000


class _Plans(msgspec.Struct):
    versions: dict[int, Ref]
    revisions: list[Ref] = []
    last: int = 0


class PlanChurn(Detector):
    id = "P1"
    name = "plan churn"
    kind = FindingKind.SYMPTOM
    rule = (
        "A plan is revised several times without any finished work in between, or a revision "
        "brings back a version that had been given up."
    )
    needs = (PlanProposed, PlanRevised, AssignmentFinished, ArtifactAdded)
    settings = (Setting("revisions", 3, "revisions without finished work that are too many", 2),)

    def begin(self) -> None:
        self._threads: dict[ThreadId, _Plans] = {}

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        plans = self._threads.get(event.thread)
        if not isinstance(data, PlanProposed | PlanRevised):
            if plans is not None:
                plans.revisions.clear()
            return
        if plans is None:
            plans = self._threads[event.thread] = _Plans({})
            trim(self._threads, _MAX_THREADS)
        version = hash(tuple([(norm(step.title), step.assignee) for step in data.steps]))
        older = plans.versions.get(version)
        if older is not None and version != plans.last:
            self.report(
                seen,
                f"{event.sender} goes back to a plan that had been given up",
                evidence=(older.id,),
            )
        plans.versions.setdefault(version, seen.ref)
        plans.last = version
        trim(plans.versions, _MAX_VERSIONS)
        if isinstance(data, PlanRevised):
            plans.revisions.append(seen.ref)
            if len(plans.revisions) == self.count("revisions"):
                self.report(
                    seen,
                    f"{event.sender} revises the plan for the {len(plans.revisions)}th time and no "
                    "work has been finished in between",
                    evidence=tuple(ref.id for ref in plans.revisions[:-1]),
                )
            del plans.revisions[: -self.count("revisions") - 1]


class PlanCoverage(Detector):
    id = "P2"
    name = "plan not followed"
    kind = FindingKind.HINT
    rule = (
        "The task is completed although an agent that the plan gives a step to was never woken "
        "after it, or work was assigned to an agent that no step of the plan names."
    )
    needs = (AssignmentMade,)

    def begin(self) -> None:
        self._made: list[tuple[Ref, AgentName]] = []

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if isinstance(data, AssignmentMade) and len(self._made) < _MAX_THREADS:
            self._made.append((seen.ref, AgentName(data.assignee)))

    def finish(self, end: End) -> None:
        timeline = end.timeline
        if timeline.status != TaskStatus.COMPLETED.value:
            return
        last: dict[ThreadId, Plan] = {plan.thread: plan for plan in timeline.plans.values()}
        for plan in last.values():
            ref = self.scene.get(plan.id)
            if ref is not None:
                self._check(plan, ref, end)

    def _check(self, plan: Plan, ref: Ref, end: End) -> None:
        worked = {
            name
            for name, agent in end.timeline.agents.items()
            if agent.turns or agent.handled or name == plan.made_by
        }
        for number, step in enumerate(plan.steps, 1):
            if step.assignee and step.assignee not in worked:
                self.report(
                    ref,
                    f"step {number} of the plan was never given to {step.assignee}: "
                    f"{first_line(step.title, 80)}",
                )
        named = {step.assignee for step in plan.steps}
        if not named or "" in named:
            return
        for made, assignee in self._made:
            if made.thread == plan.thread and made.seq > plan.seq and assignee not in named:
                self.report(
                    made,
                    f"{made.sender} gives work to {assignee}, whom no step of the plan names",
                    evidence=(plan.id,),
                )
