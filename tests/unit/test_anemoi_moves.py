"""The protocol of the Anemoi team: what the planner does next is decided by events alone."""

from __future__ import annotations

from tests.support.anemoi_log import SECOND, VOTERS, TeamLog, kinds, moves
from threadbus.agents.teams.anemoi.board import Standing
from threadbus.agents.teams.anemoi.moves import (
    Assign,
    Compile,
    Conclude,
    Consider,
    Finished,
    GiveUp,
    Judge,
    LookAfter,
    Propose,
    ProposePlan,
    Revise,
    ReviseAfterVote,
    Submit,
    Wait,
    Withdraw,
)
from threadbus.agents.teams.anemoi.names import CRITIQUE, PLANNER
from threadbus.agents.teams.anemoi.rules import Rules, WithoutConsensus
from threadbus.schemas import (
    AssignmentCancelled,
    AssignmentProgressed,
    ConsensusFailed,
    CritiqueGiven,
    CritiqueVerdict,
    ErrorInfo,
    HandlingEnded,
    MentionDeadLettered,
    PlanProposed,
    PlanRevised,
    PlanStep,
    VoteCast,
    VoteVerdict,
)

READ = PlanStep("Read", "document")
SUM = PlanStep("Add up", "coding", "", (1,))
LOOK = PlanStep("Look", "web")
ACCEPT, UNCERTAIN = CritiqueVerdict.ACCEPT, CritiqueVerdict.UNCERTAIN
APPROVE, REJECT = VoteVerdict.APPROVE, VoteVerdict.REJECT


def given_up(log: TeamLog) -> GiveUp:
    """Return why there will be no answer."""
    due = moves(log)
    assert isinstance(due, list)
    (move,) = due
    assert isinstance(move, GiveUp)
    return move


def test_work_begins_with_a_plan() -> None:
    """Nothing else is due before there is one."""
    assert moves(TeamLog()) == [ProposePlan()]


def test_the_plan_waits_for_those_who_were_asked_to_look_at_it() -> None:
    """Until each has, or gave up, or the time is over."""
    log = TeamLog(Rules(review_seconds=60))
    plan = log.add(PLANNER, PlanProposed(steps=(READ,)), mentions=("web", "document"))
    assert moves(log) == Wait(60 * SECOND)

    log.add("web", HandlingEnded(received_at=0, started_at=0, ended_at=0), cause=plan.id)
    assert moves(log) == Wait(60 * SECOND)
    dead = MentionDeadLettered(error=ErrorInfo("X", "y"))
    log.add("document", dead, cause=plan.id)
    assert moves(log) == [Assign(1)]


def test_silence_about_the_plan_ends_at_its_deadline() -> None:
    """A participant that is not there holds nobody up for ever."""
    log = TeamLog(Rules(review_seconds=60))
    log.add(PLANNER, PlanProposed(steps=(READ,)), mentions=("web",))
    log.now = 61

    assert moves(log) == [Assign(1)]


def test_a_step_waits_for_those_that_it_needs() -> None:
    """What needs nothing goes out at once; the rest when the results are accepted."""
    log = TeamLog()
    plan = log.plan(READ, SUM, LOOK)
    assert moves(log) == [Assign(1), Assign(3)]

    log.done(plan, 1, "document")
    assert moves(log) == [Assign(2), Assign(3)]


def test_every_result_is_judged_once() -> None:
    """The critique is asked for each, and its first verdict counts."""
    log = TeamLog()
    plan = log.plan(READ)
    result = log.finish(log.assign(plan, 1, "document"), "42")
    assert kinds(log) == [Judge]

    log.ask_to_judge(result)
    assert isinstance(moves(log), Wait)
    log.judge(result, UNCERTAIN, "no page")
    log.judge(result, ACCEPT)
    assert log.board.standing(READ) is Standing.UNCERTAIN


def test_only_the_critique_accepts_a_result() -> None:
    """What others say of a result is on record and decides nothing."""
    log = TeamLog()
    plan = log.plan(READ)
    result = log.finish(log.assign(plan, 1, "document"), "42")
    for name in ("document", "web", PLANNER):
        log.add(name, CritiqueGiven(of=result.id, verdict=ACCEPT))

    assert log.board.standing(READ) is Standing.DONE


def test_only_the_assignee_hands_over() -> None:
    """Another agent's word is no result."""
    log = TeamLog()
    plan = log.plan(READ)
    made = log.assign(plan, 1, "document")
    result = log.finish(made, "42")
    log.entries.pop()
    log.add("web", result.data)

    assert log.board.standing(READ) is Standing.AT_WORK


def test_a_critique_that_gives_up_leaves_a_result_uncertain() -> None:
    """Nothing is accepted because nobody looked at it."""
    log = TeamLog()
    plan = log.plan(READ)
    asked = log.ask_to_judge(log.finish(log.assign(plan, 1, "document"), "42"))
    log.add(CRITIQUE, MentionDeadLettered(error=ErrorInfo("X", "no model")), cause=asked.id)

    assert kinds(log) == [Revise]
    (work,) = log.board.works.values()
    assert "no model" in work.reasons[0]


def test_an_uncertain_result_makes_the_plan_revised() -> None:
    """What the new plan keeps is kept; what it asks for again is done again."""
    log = TeamLog()
    plan = log.plan(READ, LOOK)
    log.done(plan, 1, "document")
    result = log.finish(log.assign(plan, 2, "web"), "perhaps 42")
    log.ask_to_judge(result)
    log.judge(result, UNCERTAIN, "no source")
    assert kinds(log) == [Revise]

    log.add(PLANNER, PlanRevised(replaces=plan.id, steps=(READ, LOOK)))
    assert moves(log) == [Assign(2)]


def test_revisions_end_and_the_rest_is_answered_from() -> None:
    """After max_revisions an uncertain result is left out; accepted ones make the answer."""
    log = TeamLog(Rules(review_seconds=0, max_revisions=0))
    plan = log.plan(READ, LOOK)
    log.done(plan, 1, "document")
    result = log.finish(log.assign(plan, 2, "web"), "perhaps 42")
    log.ask_to_judge(result)
    log.judge(result, UNCERTAIN)

    assert moves(log) == [Compile(1)]
    assert [work.text for work in log.board.accepted_works()] == ["42"]


def test_without_any_accepted_result_there_is_no_answer() -> None:
    """The super-task fails and says what was not accepted."""
    log = TeamLog(Rules(review_seconds=0, max_revisions=0))
    result = log.finish(log.assign(log.plan(READ), 1, "document"), "42")
    log.ask_to_judge(result)
    log.judge(result, UNCERTAIN, "no page is named")

    move = given_up(log)
    assert "no page is named" in move.reason


def test_a_worker_without_progress_is_looked_after() -> None:
    """Progress puts it off; the longest time holds whatever the progress."""
    rules = Rules(review_seconds=0, work_seconds=60, longest_work_seconds=100)
    log = TeamLog(rules)
    made = log.assign(log.plan(READ), 1, "document")
    assert moves(log) == Wait(60 * SECOND)

    log.now = 50
    log.add("document", AssignmentProgressed(assignment=made.id, note="page 3"))
    log.now = 70
    assert moves(log) == Wait(100 * SECOND)
    log.now = 100
    assert kinds(log) == [LookAfter]


def test_passing_a_worker_over_is_on_record_and_makes_a_new_plan() -> None:
    """A cancelled assignment says why; what the worker still hands over counts no more."""
    log = TeamLog()
    made = log.assign(log.plan(READ), 1, "document")
    log.add(PLANNER, AssignmentCancelled(assignment=made.id, reason="no progress for 600 s"))
    assert kinds(log) == [Revise]

    log.finish(made, "late")
    (work,) = log.board.works.values()
    assert (work.result, work.failure) == (None, "no progress for 600 s")


def test_nobody_but_the_planner_takes_work_back() -> None:
    """Another agent's cancellation changes nothing."""
    log = TeamLog()
    made = log.assign(log.plan(READ), 1, "document")
    log.add("web", AssignmentCancelled(assignment=made.id, reason="mine is better"))

    assert log.board.standing(READ) is Standing.AT_WORK


def test_work_that_a_new_plan_drops_is_taken_back() -> None:
    """And work that it keeps goes on."""
    log = TeamLog()
    plan = log.plan(READ, LOOK)
    log.assign(plan, 1, "document")
    log.assign(plan, 2, "web")
    log.add(PLANNER, PlanRevised(replaces=plan.id, steps=(LOOK,)))

    assert kinds(log) == [Withdraw]
    assert log.board.standing(LOOK) is Standing.AT_WORK


def test_anybody_may_propose_another_plan() -> None:
    """The planner takes it over or says why not; until then nothing else is done."""
    log = TeamLog()
    plan = log.plan(READ)
    other = log.add("web", PlanRevised(replaces=plan.id, steps=(LOOK,), reasons=("faster",)))
    due = moves(log)
    assert isinstance(due, list)
    assert isinstance(due[0], Consider)
    assert (due[0].by, due[0].revised.reasons) == ("web", ("faster",))
    assert log.board.steps == (READ,)

    log.add(PLANNER, PlanRevised(replaces=other.id, steps=(LOOK,)))
    assert (log.board.steps, log.board.revisions) == ((LOOK,), 0)


def test_a_declined_plan_is_answered_with_a_reason() -> None:
    """The plan in force stays in force."""
    log = TeamLog()
    plan = log.plan(READ)
    other = log.add("web", PlanRevised(replaces=plan.id, steps=(LOOK,)))
    log.add(PLANNER, CritiqueGiven(of=other.id, verdict=UNCERTAIN, reasons=("slower",)))

    assert moves(log) == [Assign(1)]


def test_a_circle_of_needs_does_not_stop_the_team() -> None:
    """Only earlier steps count as needed, whatever a plan says."""
    log = TeamLog()
    plan = log.plan(PlanStep("A", "web", "", (2,)), PlanStep("B", "document", "", (1, 9)))
    assert moves(log) == [Assign(1)]

    log.done(plan, 1, "web")
    assert moves(log) == [Assign(2)]


def test_an_accepted_plan_leads_to_a_candidate_and_a_vote() -> None:
    """One after the other: compile, propose, wait for the votes."""
    log = TeamLog()
    log.done(log.plan(READ), 1, "document")
    assert moves(log) == [Compile(1)]

    log.propose(1)
    log.entries.pop()
    assert kinds(log) == [Propose]


def test_the_quorum_decides() -> None:
    """Three approvals of five are enough; the answer is then submitted."""
    log = TeamLog()
    log.done(log.plan(READ), 1, "document")
    proposal = log.propose(1)
    log.vote(proposal, APPROVE, *VOTERS[:2])
    assert isinstance(moves(log), Wait)

    log.vote(proposal, APPROVE, VOTERS[2])
    due = moves(log)
    assert isinstance(due, list)
    assert isinstance(due[0], Conclude)
    assert due[0].reached


def test_a_vote_counts_once_from_a_voter_and_in_time() -> None:
    """Outsiders, repetitions and late votes do not make a quorum; silence ends at the deadline."""
    log = TeamLog()
    log.done(log.plan(READ), 1, "document")
    proposal = log.propose(1, seconds=60)
    for _ in range(3):
        log.vote(proposal, APPROVE, "web")
    log.vote(proposal, APPROVE, "stranger", PLANNER)
    log.now = 61
    log.vote(proposal, APPROVE, CRITIQUE, "coding")

    due = moves(log)
    assert isinstance(due, list)
    assert isinstance(due[0], Conclude)
    assert not due[0].reached
    assert "coding: did not vote" in log.board.ballots[0].dissent


def failed_vote(rules: Rules) -> TeamLog:
    """Return a thread with a vote that failed and was recorded as such."""
    log = TeamLog(rules)
    log.done(log.plan(READ), 1, "document")
    proposal = log.propose(1)
    log.vote(proposal, REJECT, *VOTERS[:3])
    log.add(PLANNER, ConsensusFailed(proposal=proposal.id))
    return log


def test_a_failed_vote_makes_the_plan_revised() -> None:
    """Accepted results stay; another candidate is compiled and voted on."""
    log = failed_vote(Rules(review_seconds=0, max_rounds=2))
    assert kinds(log) == [ReviseAfterVote]

    log.add(PLANNER, PlanRevised(replaces=str(log.board.plan), steps=(READ,)))
    assert moves(log) == [Compile(2)]
    assert log.board.revisions == 0


def test_after_the_last_round_the_rules_say_what_happens() -> None:
    """Submit with the dissent on record, or give up with it as the reason."""
    last = failed_vote(Rules(review_seconds=0, max_rounds=1))
    assert kinds(last) == [Submit]

    hard = Rules(review_seconds=0, max_rounds=1, without_consensus=WithoutConsensus.GIVE_UP)
    move = given_up(failed_vote(hard))
    assert "no proof" in move.reason


def test_once_submitted_nothing_is_left_to_do() -> None:
    """Unless the submission fails: that ends the super-task."""
    log = TeamLog()
    log.done(log.plan(READ), 1, "document")
    proposal = log.propose(1)
    log.vote(proposal, APPROVE, *VOTERS)
    made = log.submit(proposal)
    assert moves(log) == Finished()

    log.add("answer-finding", MentionDeadLettered(error=ErrorInfo("X", "lost")), cause=made.id)
    assert kinds(log) == [GiveUp]


def test_reading_an_event_twice_changes_nothing() -> None:
    """A board that saw an event already ignores it."""
    log = TeamLog()
    log.done(log.plan(READ), 1, "document")
    proposal = log.propose(1)
    log.add("web", VoteCast(proposal=proposal.id, verdict=APPROVE))
    board = log.board
    board.take(log.entries)

    assert board.rounds == 1
    assert len(board.works) == 1
