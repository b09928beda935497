"""What a wait ends with: an answer, the result of an assignment, votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from threadbus.bus.errors import BusError, TaskFailedError
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    ErrorInfo,
    Event,
    EventId,
    MentionDeadLettered,
    MessagePosted,
    Parts,
    ProposalMade,
    TaskClosed,
    TaskId,
    TaskStatus,
    VoteVerdict,
    derive_event_id,
    text_of,
)

_MAX_ASIDES: Final = 1000
_REPLY: Final = "reply"


class MentionFailedError(BusError):
    """The agent that was asked gave the mention up."""

    def __init__(self, agent: str, kind: str, message: str) -> None:
        super().__init__(agent, kind, message)
        self.agent = agent
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"agent {self.agent} could not handle the mention: {self.kind}: {self.message}"


class Answer(msgspec.Struct, frozen=True):
    """The answer that a super-task ended with."""

    task: TaskId
    event: Event
    parts: Parts

    @property
    def text(self) -> str:
        """Its text; other kinds of parts named in brackets."""
        return text_of(self.parts)


class AssignmentResult(msgspec.Struct, frozen=True):
    """How one assignment ended."""

    assignment: EventId
    event: Event
    parts: Parts = ()
    error: ErrorInfo | None = None
    cancelled: bool = False

    @property
    def ok(self) -> bool:
        """Whether the work was done."""
        return self.error is None and not self.cancelled

    @property
    def text(self) -> str:
        """The text of the result, or of the error."""
        return text_of(self.parts) if self.error is None else self.error.message


class VoteResult(msgspec.Struct, frozen=True):
    """The votes on a proposal; each voter's last one counts."""

    proposal: EventId
    votes: Mapping[AgentName, VoteVerdict]
    missing: tuple[AgentName, ...]
    """Voters who had not voted when the wait ended."""
    quorum: int

    @property
    def approvals(self) -> int:
        """How many approve."""
        return sum(vote is VoteVerdict.APPROVE for vote in self.votes.values())

    @property
    def reached(self) -> bool:
        """Whether the quorum approves."""
        return self.approvals >= self.quorum

    @property
    def decided(self) -> bool:
        """Whether those who have not voted could not change what comes of it."""
        return self.reached or self.approvals + len(self.missing) < self.quorum


def answer_of(task: TaskId, closed: TaskClosed, answers: Mapping[EventId, Event]) -> Answer:
    """Return the answer that a super-task was closed with.

    Raises:
        TaskFailedError: it was closed without one.
    """
    event = None if closed.answer is None else answers.get(EventId(closed.answer))
    if event is None or closed.outcome is not TaskStatus.COMPLETED:
        raise TaskFailedError(task, closed.outcome, closed.summary)
    data = event.data
    return Answer(task, event, data.parts if isinstance(data, AnswerSubmitted) else ())


def usual_reply_id(message: EventId, agent: AgentName) -> EventId:
    """Return the id that an agent of ours gives to its reply to *message*."""
    return derive_event_id(message, agent, _REPLY)


def is_aside(event: Event) -> bool:
    """Whether an agent said it on the way, and not as its reply to what woke it.

    Both answer the same event. Agents of ours derive the ids of what a handler says by numbers, and
    that of the reply by a word; all derived ids carry the time of what they answer.
    """
    cause = event.cause
    if cause is None or not isinstance(event.data, MessagePosted) or event.id[:12] != cause[:12]:
        return False
    if event.id == usual_reply_id(cause, event.sender):
        # A thousand times cheaper than to try every number.
        return False
    numbers = range(_MAX_ASIDES)
    return any(event.id == derive_event_id(cause, event.sender, number) for number in numbers)


def spoken(aside: Event | None, agent: AgentName) -> Event:
    """Return the last thing that *agent* said in a turn which ended without a reply.

    Raises:
        MentionFailedError: it said nothing.
    """
    if aside is None:
        raise MentionFailedError(agent, "NoReply", "it handled the message silently")
    return aside


def result_of(event: Event) -> AssignmentResult | None:
    """Return how an assignment ended, if the event says so."""
    match event.data:
        case AssignmentFinished() as data:
            return AssignmentResult(EventId(data.assignment), event, data.parts)
        case AssignmentFailed() as data:
            return AssignmentResult(EventId(data.assignment), event, error=data.error)
        case AssignmentCancelled() as data:
            return AssignmentResult(EventId(data.assignment), event, cancelled=True)
        case MentionDeadLettered() as data if event.cause is not None:
            # The assignee gave the assignment up without a word of its own.
            return AssignmentResult(event.cause, event, error=data.error)
        case _:
            return None


def votes_on(
    proposal: EventId, made: ProposalMade, votes: Mapping[AgentName, VoteVerdict]
) -> VoteResult:
    """Return where a vote stands."""
    missing = tuple(AgentName(name) for name in made.voters if name not in votes)
    quorum = len(made.voters) if made.quorum is None else made.quorum
    return VoteResult(proposal, dict(votes), missing, quorum)


def may_settle(event: Event, made: Event | None) -> bool:
    """Whether the sender may say how an assignment ended; not known where it was made earlier."""
    if made is None or isinstance(event.data, AssignmentCancelled):
        return True
    return isinstance(made.data, AssignmentMade) and event.sender == made.data.assignee
