"""Every type of event, one family a file, and the union of them all."""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

import msgspec

from threadbus.schemas.events.base import ErrorInfo, EventClass, EventData
from threadbus.schemas.events.message import Lane, MessagePosted
from threadbus.schemas.events.observation import (
    AgentThrottled,
    ContextUsed,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MentionReceived,
    MentionStored,
    ModelCalled,
    ThrottleAction,
    ToolCalled,
    ToolReturned,
)
from threadbus.schemas.events.task import (
    ArtifactAdded,
    ForkedFrom,
    InputGiven,
    InputRequested,
    TaskClosed,
    TaskForked,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    Wake,
)
from threadbus.schemas.events.thread import (
    ConversationState,
    ParticipantAdded,
    ParticipantRemoved,
    ThreadClosed,
    ThreadOpened,
    ThreadOutcome,
    ThreadStateChanged,
)
from threadbus.schemas.events.work import (
    AnswerSubmitted,
    AssignmentAccepted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    AssignmentProgressed,
    ConsensusFailed,
    ConsensusReached,
    CritiqueGiven,
    CritiqueVerdict,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    VoteCast,
    VoteVerdict,
)


class OpaqueData(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a type, or of a version, that this reader does not know: kept as it came."""

    TYPE: ClassVar = ""
    VERSION: ClassVar = 1

    raw: bytes
    """The JSON of ``data``, verbatim."""
    event_class: EventClass


AnyData: TypeAlias = (
    TaskOpened
    | TaskForked
    | TaskStatusChanged
    | InputRequested
    | InputGiven
    | ArtifactAdded
    | TaskClosed
    | ThreadOpened
    | ParticipantAdded
    | ParticipantRemoved
    | ThreadStateChanged
    | ThreadClosed
    | MessagePosted
    | PlanProposed
    | PlanRevised
    | AssignmentMade
    | AssignmentAccepted
    | AssignmentProgressed
    | AssignmentFinished
    | AssignmentFailed
    | AssignmentCancelled
    | CritiqueGiven
    | ProposalMade
    | VoteCast
    | ConsensusReached
    | ConsensusFailed
    | AnswerSubmitted
    | MentionStored
    | MentionReceived
    | HandlingStarted
    | HandlingEnded
    | HandlingFailed
    | MentionDeadLettered
    | AgentThrottled
    | ModelCalled
    | ToolCalled
    | ToolReturned
    | ContextUsed
    | OpaqueData
)

DATA_TYPES: Final[dict[str, type[EventData]]] = {
    kind.TYPE: kind for kind in sorted(EventData.__subclasses__(), key=lambda kind: kind.TYPE)
}
"""Type name on the wire → data class, sorted by name."""

__all__ = [
    "DATA_TYPES",
    "AgentThrottled",
    "AnswerSubmitted",
    "AnyData",
    "ArtifactAdded",
    "AssignmentAccepted",
    "AssignmentCancelled",
    "AssignmentFailed",
    "AssignmentFinished",
    "AssignmentMade",
    "AssignmentMode",
    "AssignmentProgressed",
    "ConsensusFailed",
    "ConsensusReached",
    "ContextUsed",
    "ConversationState",
    "CritiqueGiven",
    "CritiqueVerdict",
    "ErrorInfo",
    "EventClass",
    "EventData",
    "ForkedFrom",
    "HandlingEnded",
    "HandlingFailed",
    "HandlingStarted",
    "InputGiven",
    "InputRequested",
    "Lane",
    "MentionDeadLettered",
    "MentionReceived",
    "MentionStored",
    "MessagePosted",
    "ModelCalled",
    "OpaqueData",
    "ParticipantAdded",
    "ParticipantRemoved",
    "PlanProposed",
    "PlanRevised",
    "PlanStep",
    "ProposalMade",
    "TaskClosed",
    "TaskForked",
    "TaskOpened",
    "TaskStatus",
    "TaskStatusChanged",
    "ThreadClosed",
    "ThreadOpened",
    "ThreadOutcome",
    "ThreadStateChanged",
    "ThrottleAction",
    "ToolCalled",
    "ToolReturned",
    "VoteCast",
    "VoteVerdict",
    "Wake",
]
