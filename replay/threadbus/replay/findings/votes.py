"""Votes: decisions that the votes do not bear out, and votes that do not count."""

from __future__ import annotations

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.ballots import Ballot
from threadbus.replay.findings.detector import Detector
from threadbus.replay.findings.seen import Seen
from threadbus.replay.text import plural
from threadbus.schemas import (
    AgentName,
    ConsensusFailed,
    ConsensusReached,
    EventId,
    VoteCast,
    VoteVerdict,
)


class NoQuorum(Detector):
    id = "Q1"
    name = "decision without quorum"
    kind = FindingKind.VIOLATION
    rule = (
        "A consensus is recorded although fewer voters have approved than the proposal needs; "
        "votes of others, and votes past the deadline, do not count."
    )
    needs = (ConsensusReached,)

    def see(self, seen: Seen) -> None:
        about = seen.ref.about
        ballot = None if about is None else self.scene.ballots.all.get(about)
        if ballot is None or ballot.reached:
            return
        self.report(
            seen,
            f"{seen.event.sender} records a consensus with {plural(ballot.approvals, 'approval')}; "
            f"{ballot.needed:,} are needed",
            evidence=(ballot.ref.id,),
        )


class BadVote(Detector):
    id = "Q2"
    name = "vote or decision that does not count"
    kind = FindingKind.VIOLATION
    rule = (
        "Somebody votes who is no voter, or a decision contradicts the votes; a vote after the "
        "decision or the deadline is a symptom, the same vote twice a hint."
    )
    needs = (VoteCast, ConsensusReached, ConsensusFailed)

    def begin(self) -> None:
        self._cast: dict[EventId, dict[AgentName, VoteVerdict]] = {}

    def see(self, seen: Seen) -> None:
        about = seen.ref.about
        ballot = None if about is None else self.scene.ballots.all.get(about)
        if ballot is None:
            return
        data = seen.event.data
        match data:
            case VoteCast():
                self._vote(seen, data, ballot)
            case ConsensusReached():
                claimed = [
                    name
                    for name in data.approvals
                    if ballot.votes.get(AgentName(name)) is not VoteVerdict.APPROVE
                ]
                if claimed:
                    self.report(
                        seen,
                        f"{seen.event.sender} counts an approval that {', '.join(claimed[:5])} "
                        "did not give",
                        evidence=(ballot.ref.id,),
                    )
                self._second(seen, ballot)
            case ConsensusFailed():
                if ballot.reached:
                    self.report(
                        seen,
                        f"{seen.event.sender} records that there is no consensus, although "
                        f"{ballot.approvals} of {ballot.needed} needed approvals are there",
                        evidence=(ballot.ref.id,),
                    )
                self._second(seen, ballot)
            case _:
                pass

    def _second(self, seen: Seen, ballot: Ballot) -> None:
        decided = ballot.decided
        if decided is not None and decided.id != seen.event.id and decided.kind != seen.event.type:
            self.report(
                seen,
                f"{seen.event.sender} records the opposite of what {decided.sender} had recorded",
                evidence=(decided.id, ballot.ref.id),
            )

    def _vote(self, seen: Seen, data: VoteCast, ballot: Ballot) -> None:
        sender = seen.event.sender
        evidence = (ballot.ref.id,)
        decided = ballot.decided
        cast = self._cast.setdefault(ballot.ref.id, {})
        if sender not in ballot.voters:
            self.report(seen, f"{sender} votes and is no voter", evidence=evidence)
        elif decided is not None or ballot.is_late(seen.at):
            when = "the deadline" if decided is None else "the decision"
            self.report(
                seen,
                f"{sender} votes after {when}: its vote does not count",
                evidence=evidence,
                kind=FindingKind.SYMPTOM,
            )
        elif cast.get(sender) is data.verdict:
            self.report(
                seen,
                f"{sender} casts the same vote twice",
                evidence=evidence,
                kind=FindingKind.HINT,
            )
        if len(cast) < len(ballot.voters) + 1:
            cast[sender] = data.verdict
