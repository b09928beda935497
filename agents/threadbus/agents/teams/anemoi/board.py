"""What stands in the team's thread: plans, work, judgements, votes. Folded from events, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from threadbus.agents.teams.anemoi.names import (
    ANSWER,
    CANDIDATE,
    CRITIQUE,
    JUDGE,
    PLANNER,
    RULES,
    STEP,
    SUBMIT,
    data_of,
    named_data,
)
from threadbus.agents.teams.anemoi.rules import Rules
from threadbus.schemas import (
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentProgressed,
    ConsensusFailed,
    ConsensusReached,
    CritiqueGiven,
    CritiqueVerdict,
    Event,
    EventId,
    HandlingEnded,
    MentionDeadLettered,
    MessagePosted,
    Parts,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    Recorded,
    VoteCast,
    VoteVerdict,
    text_of,
)

FAR: Final = 1 << 62
"""No time at all, in nanoseconds."""


class Standing(Enum):
    """Where a step of the plan stands."""

    WAITING = "waiting"
    """For another step."""
    READY = "ready"
    AT_WORK = "at work"
    DONE = "done"
    """There is a result that nobody has judged."""
    ACCEPTED = "accepted"
    UNCERTAIN = "uncertain"
    FAILED = "failed"
    """No result: it failed or was passed over."""


@dataclass
class Work:
    """One assignment."""

    id: EventId
    assignee: str
    title: str
    at: int
    step: PlanStep | None
    plan: str = ""
    moved_at: int = 0
    """When it last showed progress, in nanoseconds."""
    note: str = ""
    result: EventId | None = None
    text: str = ""
    parts: Parts = ()
    failure: str = ""
    judge_asked: EventId | None = None
    judge_asked_at: int = 0
    verdict: CritiqueVerdict | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether its result is still to come."""
        return self.result is None and not self.failure

    @property
    def is_pending(self) -> bool:
        """Whether it may still be accepted."""
        return not self.failure and self.verdict is None


@dataclass
class Ballot:
    """One proposal and its votes."""

    id: EventId
    parts: Parts
    voters: tuple[str, ...]
    quorum: int
    deadline_at: int
    votes: dict[str, tuple[VoteVerdict, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[VoteVerdict, tuple[str, ...]]]
    )
    reached: bool | None = None
    """What the planner recorded of it."""

    @property
    def dissent(self) -> tuple[str, ...]:
        """Who does not approve, and why; those who were silent too, unless the vote was reached."""
        said: list[str] = []
        for voter in self.voters:
            verdict, reasons = self.votes.get(voter, (None, ()))
            if verdict is None and not self.reached:
                said.append(f"{voter}: did not vote")
            elif verdict is VoteVerdict.REJECT:
                said.append(f"{voter}: {'; '.join(reasons) or 'rejects'}")
        return tuple(said)


@dataclass
class Board:
    """The state of the team's thread."""

    rules: Rules = field(default_factory=Rules)
    question: str = ""
    plan: EventId | None = None
    """The plan in force."""
    plan_at: int = 0
    first_plan: EventId | None = None
    steps: tuple[PlanStep, ...] = ()
    versions: int = 0
    asked_to_review: tuple[str, ...] = ()
    reviewed: set[str] = field(default_factory=set[str])
    alternatives: dict[EventId, tuple[str, PlanRevised]] = field(
        default_factory=dict[EventId, tuple[str, PlanRevised]]
    )
    """Plans of others than the planner that it has not answered."""
    considered: int = 0
    """How many it has answered."""
    revisions: int = 0
    """How often results that were not accepted made the plan revised."""
    works: dict[EventId, Work] = field(default_factory=dict[EventId, Work])
    candidates: dict[int, Work] = field(default_factory=dict[int, Work])
    ballots: list[Ballot] = field(default_factory=list[Ballot])
    submission: EventId | None = None
    submission_failure: str = ""
    last_seq: int = 0
    seen: set[EventId] = field(default_factory=set[EventId])
    _plans: dict[str, tuple[PlanStep, ...]] = field(default_factory=dict[str, tuple[PlanStep, ...]])
    _after_vote: bool = False

    # what is asked of it

    def standing(self, step: PlanStep) -> Standing:
        """Return where a step of the plan in force stands."""
        if self.accepted(step) is not None:
            return Standing.ACCEPTED
        work = self.current(step)
        if work is None:
            is_ready = all(self.standing(need) in _SETTLED for need in self._needs(step))
            return Standing.READY if is_ready else Standing.WAITING
        if work.is_open:
            return Standing.AT_WORK
        if work.failure:
            return Standing.FAILED
        if work.verdict is None:
            return Standing.DONE
        return Standing.UNCERTAIN

    def current(self, step: PlanStep) -> Work | None:
        """Return the latest work on a step that counts under the plan in force.

        What ended badly under an earlier plan does not: the step stands in the new one to be done
        again. What is still under way, or waits to be judged, goes on.
        """
        found = None
        for work in self.works.values():
            if _same(work.step, step) and (work.plan == self.plan or work.is_pending):
                found = work
        return found

    def needed_by(self, step: PlanStep) -> list[Work]:
        """Return the accepted work that a step needs."""
        works = [self.accepted(need) for need in self._needs(step)]
        return [work for work in works if work is not None]

    def _needs(self, step: PlanStep) -> list[PlanStep]:
        # Only earlier ones count: a plan of another agent's may go round in circles.
        earlier = self.steps[: self.steps.index(step)]
        return [earlier[number - 1] for number in step.after if number <= len(earlier)]

    def stray(self) -> list[Work]:
        """Return open work on steps that the plan in force has no more."""
        return [
            work
            for work in self.works.values()
            if work.is_open and not any(_same(work.step, step) for step in self.steps)
        ]

    def accepted(self, step: PlanStep) -> Work | None:
        """Return the accepted work on a step, under whichever plan."""
        for work in self.works.values():
            if work.verdict is CritiqueVerdict.ACCEPT and _same(work.step, step):
                return work
        return None

    def accepted_works(self) -> list[Work]:
        """Return every accepted work, in the order in which it was given out."""
        return [w for w in self.works.values() if w.verdict is CritiqueVerdict.ACCEPT]

    @property
    def rounds(self) -> int:
        """How many votes were held."""
        return len(self.ballots)

    @property
    def waits_for_revision(self) -> bool:
        """Whether the last vote failed and nothing has come of it yet."""
        return self._after_vote

    # folding

    def take(self, entries: Iterable[Recorded]) -> Board:
        """Fold events in, in log order; one that is known already changes nothing."""
        for entry in entries:
            if entry.event.id not in self.seen:
                self.seen.add(entry.event.id)
                self._take(entry)
            self.last_seq = max(self.last_seq, entry.seq)
        return self

    def _take(self, entry: Recorded) -> None:
        event = entry.event
        by_planner = event.sender == PLANNER
        match event.data:
            case MessagePosted() as data if by_planner:
                self._take_message(event, data)
            case PlanProposed() as data if by_planner and self.plan is None:
                self.first_plan, self.asked_to_review = event.id, tuple(event.mentions)
                self._put(event.id, event.at, data.steps)
            case PlanRevised() as data if by_planner and data.replaces in self.alternatives:
                self._answered(data.replaces)
                self._put(event.id, event.at, data.steps)
            case PlanRevised() as data if by_planner:
                self.revisions += 0 if self._after_vote else 1
                self._after_vote = False
                self._put(event.id, event.at, data.steps)
            case PlanRevised() as data:
                self.alternatives[event.id] = (event.sender, data)
            case CritiqueGiven() as data:
                self._take_critique(event.sender, data)
            case HandlingEnded() if event.cause == self.first_plan:
                self.reviewed.add(event.sender)
            case MentionDeadLettered() as data:
                self._take_dead_letter(event.sender, event.cause, data)
            case ProposalMade() as data if by_planner:
                quorum = data.quorum or len(data.voters)
                self.ballots.append(
                    Ballot(event.id, data.parts, data.voters, quorum, data.deadline_at or FAR)
                )
            case VoteCast() as data:
                self._take_vote(entry, data)
            case ConsensusReached() as data if by_planner:
                self._conclude(data.proposal, reached=True)
            case ConsensusFailed() as data if by_planner:
                self._conclude(data.proposal, reached=False)
            case _:
                self._take_work(entry)

    def _answered(self, plan: str) -> None:
        if self.alternatives.pop(EventId(plan), None) is not None:
            self.considered += 1

    def _put(self, plan: EventId, at: int, steps: tuple[PlanStep, ...]) -> None:
        self.plan, self.plan_at, self.steps = plan, at, steps
        self.versions += 1
        self._plans[plan] = steps

    def _take_message(self, event: Event, data: MessagePosted) -> None:
        rules = named_data(data.parts, RULES)
        if rules is not None and not self.question:
            self.rules = msgspec.convert(rules, Rules)
            self.question = text_of([p for p in data.parts if getattr(p, "name", "") != RULES])
        judged = named_data(data.parts, JUDGE)
        if judged is not None:
            for work in self.works.values():
                if work.result == judged.get("result"):
                    work.judge_asked, work.judge_asked_at = event.id, event.at

    def _take_critique(self, sender: str, data: CritiqueGiven) -> None:
        if sender == PLANNER:
            self._answered(data.of)
        # The planner may leave a result unaccepted, and never accept one.
        passed_over = sender == PLANNER and data.verdict is CritiqueVerdict.UNCERTAIN
        if sender != CRITIQUE and not passed_over:
            return
        for work in self.works.values():
            # The first judgement counts: nothing rests on a result whose verdict may still change.
            if work.result == data.of and work.verdict is None:
                work.verdict, work.reasons = data.verdict, data.reasons

    def _take_dead_letter(
        self, sender: str, cause: EventId | None, data: MentionDeadLettered
    ) -> None:
        reason = f"{sender} gave up: {data.error.message}"
        if cause == self.first_plan:
            self.reviewed.add(sender)
        for work in (*self.works.values(), *self.candidates.values()):
            if work.judge_asked == cause and work.verdict is None and sender == CRITIQUE:
                work.verdict, work.reasons = CritiqueVerdict.UNCERTAIN, (reason,)
            if work.id == cause and work.is_open and sender == work.assignee:
                work.failure = reason
        if cause is not None and cause == self.submission:
            self.submission_failure = reason

    def _take_vote(self, entry: Recorded, data: VoteCast) -> None:
        for ballot in self.ballots:
            is_in_time = not entry.stored_at or entry.stored_at <= ballot.deadline_at
            if ballot.id == data.proposal and entry.event.sender in ballot.voters and is_in_time:
                ballot.votes[entry.event.sender] = (data.verdict, data.reasons)

    def _conclude(self, proposal: str, *, reached: bool) -> None:
        for ballot in self.ballots:
            if ballot.id == proposal:
                ballot.reached = reached
        self._after_vote = not reached

    def _take_work(self, entry: Recorded) -> None:
        event = entry.event
        match event.data:
            case AssignmentMade() as data if event.sender == PLANNER:
                self._take_assignment(entry, data)
            case AssignmentProgressed() as data:
                for work in self._open(data.assignment):
                    if event.sender == work.assignee:
                        # By the clock of the server: the worker's may be wrong.
                        work.moved_at = entry.stored_at or event.at
                        work.note = data.note
            case AssignmentFinished() as data:
                for work in self._open(data.assignment):
                    if event.sender == work.assignee:
                        work.result, work.parts = event.id, data.parts
                        work.text = text_of(data.parts)
            case AssignmentFailed() as data:
                for work in self._open(data.assignment):
                    if event.sender == work.assignee:
                        work.failure = data.error.message or data.error.kind
                if data.assignment == self.submission:
                    self.submission_failure = data.error.message or data.error.kind
            case AssignmentCancelled() as data if event.sender == PLANNER:
                for work in self._open(data.assignment):
                    work.failure = data.reason or "cancelled"
            case _:
                pass

    def _take_assignment(self, entry: Recorded, data: AssignmentMade) -> None:
        event = entry.event
        work = Work(event.id, data.assignee, data.title, event.at, None, moved_at=event.at)
        about, candidate = data_of(event, STEP), data_of(event, CANDIDATE)
        if data.assignee == ANSWER and data_of(event, SUBMIT) is not None:
            self.submission = event.id
        elif data.assignee == ANSWER and candidate is not None:
            self.candidates[_number(candidate.get("round"))] = work
        elif about is not None:
            work.plan = str(about.get("plan", ""))
            steps, number = self._plans.get(work.plan, ()), _number(about.get("number"))
            if 1 <= number <= len(steps):
                work.step = steps[number - 1]
                self.works[event.id] = work

    def _open(self, assignment: str) -> list[Work]:
        works = (*self.works.values(), *self.candidates.values())
        return [work for work in works if work.id == assignment and work.is_open]


_SETTLED = frozenset({Standing.ACCEPTED, Standing.UNCERTAIN, Standing.FAILED})


def _same(one: PlanStep | None, other: PlanStep) -> bool:
    """Whether two steps ask for the same; where each stands in its plan does not matter."""
    return one is not None and (one.title, one.assignee, one.detail) == (
        other.title,
        other.assignee,
        other.detail,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
