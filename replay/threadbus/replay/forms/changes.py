"""What changed from one version of a plan to the next."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

import msgspec

from threadbus.replay.kept import Plan, PlanItem
from threadbus.schemas import EventId


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a plan, and what became of it."""

    kind: str
    """``same``, ``added``, ``removed`` or ``changed``."""
    step: PlanItem
    """As it is now; as it was, where it was removed."""
    before: PlanItem | None = None
    """As it was, where it was changed."""


def changes(plan: Plan, plans: Mapping[EventId, Plan]) -> list[Change]:
    """Return the steps of *plan*, and those that it left out, in order.

    Args:
        plan: the version.
        plans: every version; the one that is compared is the one that *plan* replaces, or else
            the version before it in its thread.
    """
    before = _before(plan, plans)
    if before is None:
        return [Change("same", step) for step in plan.steps]
    old, new = before.steps, plan.steps
    titles = [step.title for step in old], [step.title for step in new]
    found: list[Change] = []
    matcher = SequenceMatcher(None, *titles, autojunk=False)
    for tag, low, high, start, end in matcher.get_opcodes():
        if tag == "equal":
            for was, now in zip(old[low:high], new[start:end], strict=True):
                is_same = was == now
                kind, earlier = ("same", None) if is_same else ("changed", was)
                found.append(Change(kind, now, earlier))
        else:
            found += [Change("removed", step) for step in old[low:high]]
            found += [Change("added", step) for step in new[start:end]]
    return found


def _before(plan: Plan, plans: Mapping[EventId, Plan]) -> Plan | None:
    named = None if plan.replaces is None else plans.get(plan.replaces)
    if named is not None and named is not plan:
        return named
    for other in plans.values():
        if other.thread == plan.thread and other.version == plan.version - 1:
            return other
    return None
