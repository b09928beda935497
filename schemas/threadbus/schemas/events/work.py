"""The work itself: plans, assignments, critiques, votes and answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from threadbus.schemas.bounds import (
    NAME_OR_NONE_PATTERN,
    WAY_OUT,
    HexId,
    Name,
    Note,
    Notes,
    Participants,
    Positive,
    TimeNs,
    Title,
)
from threadbus.schemas.events.base import ErrorInfo, EventClass, EventData, PartList
from threadbus.schemas.limits import MAX_PARTICIPANTS, MAX_PLAN_STEPS, MAX_SOURCES

NameOrNone = Annotated[str, msgspec.Meta(pattern=NAME_OR_NONE_PATTERN)]
Sources = Annotated[
    tuple[HexId, ...],
    msgspec.Meta(max_length=MAX_SOURCES, extra={WAY_OUT: "name the events that matter most"}),
]
Voters = Annotated[
    tuple[Name, ...],
    msgspec.Meta(
        min_length=1,
        max_length=MAX_PARTICIPANTS,
        extra={WAY_OUT: "let fewer vote, each for a group"},
    ),
]


Earlier = Annotated[
    tuple[Positive, ...],
    msgspec.Meta(max_length=MAX_PLAN_STEPS, extra={WAY_OUT: "name the direct ones only"}),
]


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a plan and who is to do it."""

    title: Title
    assignee: NameOrNone = ""
    detail: Note = ""
    after: Earlier = ()
    """The steps whose results it needs, counted from 1 in the same plan."""


PlanSteps = Annotated[
    tuple[PlanStep, ...],
    msgspec.Meta(
        max_length=MAX_PLAN_STEPS,
        extra={WAY_OUT: "plan coarser, and give each coarse step a thread with its own plan"},
    ),
]


class PlanProposed(EventData, frozen=True, kw_only=True):
    """Propose the first plan of a thread."""

    TYPE: ClassVar = "plan.proposed"
    CLASS: ClassVar = EventClass.WORK

    steps: PlanSteps
    reasons: Notes = ()


class PlanRevised(EventData, frozen=True, kw_only=True):
    """Propose another plan in place of an earlier one, and say why."""

    TYPE: ClassVar = "plan.revised"
    CLASS: ClassVar = EventClass.WORK

    replaces: HexId
    steps: PlanSteps
    reasons: Notes = ()


class AssignmentMode(StrEnum):
    """Whether the assigner waits."""

    SYNC = "sync"
    """The assigner follows the log for the result."""
    ASYNC = "async"
    """The result mentions the assigner and wakes it."""


class AssignmentMade(EventData, frozen=True, kw_only=True):
    """Give a piece of work to one agent; the event's id names the assignment."""

    TYPE: ClassVar = "assignment.made"
    CLASS: ClassVar = EventClass.WORK

    assignee: Name
    parts: PartList
    title: Title = ""
    mode: AssignmentMode = AssignmentMode.SYNC
    deadline_at: TimeNs | None = None


class AssignmentAccepted(EventData, frozen=True, kw_only=True):
    """Take the work on."""

    TYPE: ClassVar = "assignment.accepted"
    CLASS: ClassVar = EventClass.WORK

    assignment: HexId
    note: Note = ""


class AssignmentProgressed(EventData, frozen=True, kw_only=True):
    """Say how far the work is."""

    TYPE: ClassVar = "assignment.progressed"
    CLASS: ClassVar = EventClass.WORK

    assignment: HexId
    note: Note = ""
    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class AssignmentFinished(EventData, frozen=True, kw_only=True):
    """Hand over the result."""

    TYPE: ClassVar = "assignment.finished"
    CLASS: ClassVar = EventClass.WORK

    assignment: HexId
    parts: PartList = ()


class AssignmentFailed(EventData, frozen=True, kw_only=True):
    """Say that the work cannot be done, and why."""

    TYPE: ClassVar = "assignment.failed"
    CLASS: ClassVar = EventClass.WORK

    assignment: HexId
    error: ErrorInfo


class AssignmentCancelled(EventData, frozen=True, kw_only=True):
    """Take the work back."""

    TYPE: ClassVar = "assignment.cancelled"
    CLASS: ClassVar = EventClass.WORK

    assignment: HexId
    reason: Note = ""


class CritiqueVerdict(StrEnum):
    """What a critique says of a result."""

    ACCEPT = "accept"
    UNCERTAIN = "uncertain"


class CritiqueGiven(EventData, frozen=True, kw_only=True):
    """Judge a plan, a result or a message, with reasons."""

    TYPE: ClassVar = "critique.given"
    CLASS: ClassVar = EventClass.WORK

    of: HexId
    verdict: CritiqueVerdict
    reasons: Notes = ()


class ProposalMade(EventData, frozen=True, kw_only=True):
    """Put something to the vote; those mentioned are asked."""

    TYPE: ClassVar = "proposal.made"
    CLASS: ClassVar = EventClass.WORK

    parts: PartList
    voters: Voters
    quorum: Positive | None = None
    """Approvals needed; all voters when absent."""
    deadline_at: TimeNs | None = None


class VoteVerdict(StrEnum):
    """What a voter says."""

    APPROVE = "approve"
    REJECT = "reject"


class VoteCast(EventData, frozen=True, kw_only=True):
    """Vote on a proposal; a voter's last vote before the deadline counts."""

    TYPE: ClassVar = "vote.cast"
    CLASS: ClassVar = EventClass.WORK

    proposal: HexId
    verdict: VoteVerdict
    reasons: Notes = ()


class ConsensusReached(EventData, frozen=True, kw_only=True):
    """Record that a proposal has its quorum."""

    TYPE: ClassVar = "consensus.reached"
    CLASS: ClassVar = EventClass.WORK

    proposal: HexId
    approvals: Participants = ()
    rejections: Participants = ()


class ConsensusFailed(EventData, frozen=True, kw_only=True):
    """Record that a proposal cannot get its quorum, with the dissent."""

    TYPE: ClassVar = "consensus.failed"
    CLASS: ClassVar = EventClass.WORK

    proposal: HexId
    approvals: Participants = ()
    rejections: Participants = ()
    reason: Note = ""


class AnswerSubmitted(EventData, frozen=True, kw_only=True):
    """Submit an answer to the super-task; closing the task accepts it."""

    TYPE: ClassVar = "answer.submitted"
    CLASS: ClassVar = EventClass.WORK

    parts: PartList
    sources: Sources = ()
    """The events that the answer rests on."""
    dissent: Notes = ()
