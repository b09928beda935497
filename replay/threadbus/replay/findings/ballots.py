"""What was put to the vote, and how the votes stand."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.refs import Ref
from threadbus.replay.steps import ns
from threadbus.schemas import (
    AgentName,
    ConsensusFailed,
    ConsensusReached,
    Event,
    EventId,
    ProposalMade,
    VoteCast,
    VoteVerdict,
)

MAX_BALLOTS: Final = 10_000
"""Proposals that are remembered; the oldest are forgotten first."""


class Ballot(msgspec.Struct, kw_only=True):
    """One proposal with the votes that count: by voters, in time, each voter's last."""

    ref: Ref
    voters: frozenset[str]
    needed: int
    """Approvals."""
    deadline_at: int | None = None
    votes: dict[AgentName, VoteVerdict] = {}
    decided: Ref | None = None
    """The first event that recorded what came of it."""

    @property
    def approvals(self) -> int:
        """How many approve."""
        return sum(vote is VoteVerdict.APPROVE for vote in self.votes.values())

    @property
    def reached(self) -> bool:
        """Whether enough approve."""
        return self.approvals >= self.needed

    @property
    def is_pending(self) -> bool:
        """Whether those who have not voted could still change what comes of it."""
        missing = len(self.voters) - len(self.votes)
        return self.decided is None and not self.reached and self.approvals + missing >= self.needed

    def is_late(self, at: int) -> bool:
        """Whether a vote at this time does not count."""
        return self.deadline_at is not None and at > self.deadline_at


class Ballots:
    """Every proposal that is remembered."""

    def __init__(self) -> None:
        self.all: dict[EventId, Ballot] = {}

    def take(self, event: Event, ref: Ref) -> None:
        """Take the next event."""
        data = event.data
        match data:
            case ProposalMade():
                self.all[event.id] = Ballot(
                    ref=ref,
                    voters=frozenset(data.voters),
                    needed=len(set(data.voters)) if data.quorum is None else ns(data.quorum),
                    deadline_at=None if data.deadline_at is None else ns(data.deadline_at),
                )
                trim(self.all, MAX_BALLOTS)
            case VoteCast():
                ballot = self.all.get(EventId(data.proposal))
                if ballot is None or event.sender not in ballot.voters or ballot.is_late(ref.at):
                    return
                if ballot.decided is None:
                    ballot.votes[event.sender] = data.verdict
            case ConsensusReached() | ConsensusFailed():
                ballot = self.all.get(EventId(data.proposal))
                if ballot is not None and ballot.decided is None:
                    ballot.decided = ref
            case _:
                pass
