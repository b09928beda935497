"""Silence in the Anemoi team: what keeps a worker alive, and what ends the wait for a verdict."""

from __future__ import annotations

import msgspec

from tests.support.anemoi_log import SECOND, TeamLog, kinds, moves
from threadbus.agents.teams.anemoi.board import Standing
from threadbus.agents.teams.anemoi.moves import (
    MOST_CONSIDERED,
    Consider,
    Decline,
    PassCritiqueOver,
    Revise,
    Wait,
)
from threadbus.agents.teams.anemoi.names import PLANNER
from threadbus.agents.teams.anemoi.rules import Rules
from threadbus.schemas import (
    AssignmentProgressed,
    CritiqueGiven,
    CritiqueVerdict,
    PlanRevised,
    PlanStep,
    Recorded,
)

READ = PlanStep("Read", "document")
ACCEPT, UNCERTAIN = CritiqueVerdict.ACCEPT, CritiqueVerdict.UNCERTAIN


def test_only_a_workers_own_progress_counts_by_the_clock_of_the_server() -> None:
    """Neither another agent nor a clock that is ahead keeps a worker that hangs."""
    log = TeamLog(Rules(review_seconds=0, work_seconds=60))
    plan = log.plan(READ)
    made = log.assign(plan, 1, "document")
    log.now = 50
    log.add("web", AssignmentProgressed(assignment=made.id))
    assert moves(log) == Wait(60 * SECOND)

    entry = log.entries[-1]
    said = log.add("document", AssignmentProgressed(assignment=made.id))
    ahead = msgspec.structs.replace(said, at=said.at + 10**6 * SECOND)
    log.entries[-1] = Recorded(entry.seq + 1, ahead, 50 * SECOND)
    assert moves(log) == Wait(110 * SECOND)


def test_plans_of_others_are_looked_at_in_bounds() -> None:
    """Each costs a call of the model; what comes after so many is declined, on record."""
    log = TeamLog()
    first = log.plan(READ)
    plan = PlanRevised(replaces=first.id, steps=(READ,))
    for _ in range(MOST_CONSIDERED - 1):
        offered = log.add("web", plan)
        log.add(PLANNER, CritiqueGiven(of=offered.id, verdict=UNCERTAIN))
    log.add("web", plan)
    log.add("coding", plan)

    assert kinds(log) == [Consider, Decline]


def test_a_critique_that_never_judges_is_passed_over_on_record() -> None:
    """A result then stays uncertain: neither the planner nor silence accepts it."""
    log = TeamLog(Rules(review_seconds=0, longest_work_seconds=600))
    plan = log.plan(READ)
    result = log.finish(log.assign(plan, 1, "document"), "42")
    log.ask_to_judge(result)
    assert moves(log) == Wait(600 * SECOND)
    log.now = 600
    assert kinds(log) == [PassCritiqueOver]

    log.add(PLANNER, CritiqueGiven(of=result.id, verdict=ACCEPT))
    assert log.board.standing(READ) is Standing.DONE
    log.add(PLANNER, CritiqueGiven(of=result.id, verdict=UNCERTAIN, reasons=("no verdict",)))
    assert log.board.standing(READ) is Standing.UNCERTAIN
    assert kinds(log) == [Revise]
