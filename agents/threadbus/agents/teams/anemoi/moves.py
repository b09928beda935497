"""What the planner does next, decided from the board alone: the protocol of the team.

Pure, so that a planner which was killed goes on from the log exactly where it stopped.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from threadbus.agents.teams.anemoi.board import FAR, Ballot, Board, Standing, Work
from threadbus.agents.teams.anemoi.rules import WithoutConsensus
from threadbus.schemas import EventId, PlanRevised

_SECOND: Final = 1_000_000_000
MOST_CONSIDERED: Final = 20
"""Plans of others that the planner's model looks at in one super-task."""


class ProposePlan(msgspec.Struct, frozen=True):
    """Put the first plan into the thread."""


class Consider(msgspec.Struct, frozen=True):
    """Take over or decline the plan of another agent."""

    plan: EventId
    by: str
    revised: PlanRevised


class Decline(msgspec.Struct, frozen=True):
    """Decline the plan of another agent unseen: too many came."""

    plan: EventId
    by: str


class Assign(msgspec.Struct, frozen=True):
    """Give out a step of the plan in force."""

    number: int


class Judge(msgspec.Struct, frozen=True):
    """Ask the critique to judge a result."""

    work: Work


class PassCritiqueOver(msgspec.Struct, frozen=True):
    """Leave a result unaccepted that the critique does not judge."""

    work: Work


class Revise(msgspec.Struct, frozen=True):
    """Revise the plan, because of results that cannot be used."""

    works: tuple[Work, ...]


class ReviseAfterVote(msgspec.Struct, frozen=True):
    """Revise the plan, because the vote failed."""

    ballot: Ballot


class LookAfter(msgspec.Struct, frozen=True):
    """Ask a worker that shows no progress how far it is, and pass it over."""

    work: Work
    why: str


class Withdraw(msgspec.Struct, frozen=True):
    """Take work back that the plan in force does not want."""

    work: Work


class Compile(msgspec.Struct, frozen=True):
    """Have a candidate answer compiled."""

    round: int


class Propose(msgspec.Struct, frozen=True):
    """Put the candidate answer to the vote."""

    candidate: Work
    round: int


class Conclude(msgspec.Struct, frozen=True):
    """Record what a vote came to."""

    ballot: Ballot
    reached: bool


class Submit(msgspec.Struct, frozen=True):
    """Have the answer submitted."""

    ballot: Ballot


class GiveUp(msgspec.Struct, frozen=True):
    """End the super-task without an answer."""

    reason: str


class Wait(msgspec.Struct, frozen=True):
    """Wait for events, at most until a time in nanoseconds."""

    until: int


class Finished(msgspec.Struct, frozen=True):
    """Nothing is left to do: the answer is being submitted."""


Move: TypeAlias = (
    ProposePlan
    | Consider
    | Decline
    | Assign
    | Judge
    | PassCritiqueOver
    | Revise
    | ReviseAfterVote
    | LookAfter
    | Withdraw
    | Compile
    | Propose
    | Conclude
    | Submit
    | GiveUp
)


def next_moves(board: Board, now: int) -> list[Move] | Wait | Finished:
    """Return what to do now, or until when to wait at most.

    Args:
        board: the thread so far.
        now: nanoseconds since the epoch.
    """
    if board.submission is not None:
        if board.submission_failure:
            return [GiveUp(f"the answer was not submitted: {board.submission_failure}")]
        return Finished()
    if board.plan is None:
        return [ProposePlan()]
    if board.alternatives:
        return _answers(board)
    review = _review_ends(board)
    if review > now:
        return Wait(review)
    if board.ballots and board.ballots[-1].reached is None:
        return _count(board.ballots[-1], now)
    if board.ballots and board.ballots[-1].reached:
        return [Submit(board.ballots[-1])]
    if board.ballots and board.waits_for_revision:
        return _after_failed_vote(board)
    moves = _work_moves(board, now)
    if moves:
        return moves
    if any(board.standing(step) in _UNDER_WAY for step in board.steps):
        return Wait(_next_look(board))
    return _answer_moves(board, now)


def _answers(board: Board) -> list[Move]:
    """Return what is said to the plans of others: each costs a call of the model."""
    left = max(0, MOST_CONSIDERED - board.considered)
    moves: list[Move] = []
    for number, (plan, (by, revised)) in enumerate(board.alternatives.items()):
        moves.append(Consider(plan, by, revised) if number < left else Decline(plan, by))
    return moves


def _review_ends(board: Board) -> int:
    """Return until when the first plan may be looked at; 0 where nobody does any more."""
    is_first = board.plan == board.first_plan and not board.works
    left = set(board.asked_to_review) - board.reviewed
    return board.plan_at + int(board.rules.review_seconds * _SECOND) if is_first and left else 0


def _work_moves(board: Board, now: int) -> list[Move]:
    moves: list[Move] = [Withdraw(work) for work in board.stray()]
    spoilt = tuple(
        work
        for step in board.steps
        if board.standing(step) in {Standing.UNCERTAIN, Standing.FAILED}
        and (work := board.current(step)) is not None
    )
    if spoilt and board.revisions < board.rules.max_revisions:
        return [*moves, Revise(spoilt)]
    for number, step in enumerate(board.steps, 1):
        standing = board.standing(step)
        work = board.current(step)
        if standing is Standing.READY:
            moves.append(Assign(number))
        elif work is None:
            continue
        elif standing is Standing.DONE and work.judge_asked is None:
            moves.append(Judge(work))
        elif standing is Standing.DONE and now >= _verdict_due(board, work):
            moves.append(PassCritiqueOver(work))
        elif standing is Standing.AT_WORK:
            moves += _overdue(board, work, now)
    return moves


def _overdue(board: Board, work: Work, now: int) -> list[Move]:
    if now >= work.at + int(board.rules.longest_work_seconds * _SECOND):
        limit = board.rules.longest_work_seconds
        return [LookAfter(work, f"it took longer than {limit:g} s")]
    if now >= work.moved_at + int(board.rules.work_seconds * _SECOND):
        return [LookAfter(work, f"it showed no progress for {board.rules.work_seconds:g} s")]
    return []


def _next_look(board: Board) -> int:
    """Return when the next assignment may be overdue."""
    rules = board.rules
    ends = [
        min(
            work.moved_at + int(rules.work_seconds * _SECOND),
            work.at + int(rules.longest_work_seconds * _SECOND),
        )
        for work in (*board.works.values(), *board.candidates.values())
        if work.is_open
    ]
    verdicts = [
        _verdict_due(board, work)
        for work in board.works.values()
        if work.judge_asked is not None and not work.is_open and work.is_pending
    ]
    return min((*ends, *verdicts), default=FAR)


def _verdict_due(board: Board, work: Work) -> int:
    """Return when the critique has had as long as any worker may take."""
    return work.judge_asked_at + int(board.rules.longest_work_seconds * _SECOND)


def _answer_moves(board: Board, now: int) -> list[Move] | Wait:
    if not board.accepted_works():
        return [GiveUp(_nothing_accepted(board))]
    round_ = board.rounds + 1
    candidate = board.candidates.get(round_)
    if candidate is None:
        return [Compile(round_)]
    if candidate.failure:
        return [GiveUp(f"no answer was compiled: {candidate.failure}")]
    if candidate.is_open:
        return _overdue(board, candidate, now) or Wait(_next_look(board))
    return [Propose(candidate, round_)]


def _count(ballot: Ballot, now: int) -> list[Move] | Wait:
    approvals = sum(verdict == "approve" for verdict, _ in ballot.votes.values())
    missing = len(ballot.voters) - len(ballot.votes)
    if approvals >= ballot.quorum:
        return [Conclude(ballot, reached=True)]
    if approvals + missing < ballot.quorum or now >= ballot.deadline_at:
        return [Conclude(ballot, reached=False)]
    return Wait(ballot.deadline_at)


def _after_failed_vote(board: Board) -> list[Move]:
    last = board.ballots[-1]
    if board.rounds < board.rules.max_rounds:
        return [ReviseAfterVote(last)]
    if board.rules.without_consensus is WithoutConsensus.SUBMIT:
        return [Submit(last)]
    said = "; ".join(last.dissent)
    return [GiveUp(f"no consensus after {board.rounds} votes: {said}")]


def _nothing_accepted(board: Board) -> str:
    said = [
        f"{work.title}: {work.failure or '; '.join(work.reasons) or 'not accepted'}"
        for work in board.works.values()
    ]
    return "no result was accepted\n" + "\n".join(said)


_UNDER_WAY: Final = frozenset({Standing.WAITING, Standing.READY, Standing.AT_WORK, Standing.DONE})
