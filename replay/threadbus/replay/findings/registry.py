"""Every detector, in the order of the documentation."""

from __future__ import annotations

from typing import Final

from threadbus.replay.findings.assignments import LatencyBypass, NoPause, RepeatedAssignment
from threadbus.replay.findings.cost import CostShare, CriticalPath, Imbalance, LimitReached
from threadbus.replay.findings.delivery import ClockSkew, Duplicate, Redelivery, UnreadableEntry
from threadbus.replay.findings.detector import Detector
from threadbus.replay.findings.ending import NoEnd, PrematureEnd
from threadbus.replay.findings.faults import (
    ErrorBurst,
    FailedAttempt,
    GivenUp,
    MalformedCall,
    Refused,
)
from threadbus.replay.findings.inputs import (
    ConversationReset,
    HistoryLoss,
    IgnoredInput,
    IgnoredToolError,
)
from threadbus.replay.findings.plans import PlanChurn, PlanCoverage
from threadbus.replay.findings.protocol import (
    Orphan,
    OutOfOrder,
    RoleViolation,
    UnknownAddressee,
)
from threadbus.replay.findings.repetition import ExactRepetition, Loop, NearRepetition, Stagnation
from threadbus.replay.findings.throttling import Throttled
from threadbus.replay.findings.verification import (
    ClaimWithoutEvidence,
    NoVerification,
    StaleVerification,
)
from threadbus.replay.findings.votes import BadVote, NoQuorum
from threadbus.replay.findings.waiting import LateReply, StalledAgent, StalledTask, Unanswered

ALL: Final[tuple[type[Detector], ...]] = (
    ExactRepetition,
    NearRepetition,
    Loop,
    Stagnation,
    RepeatedAssignment,
    NoPause,
    Unanswered,
    LateReply,
    LatencyBypass,
    StalledAgent,
    StalledTask,
    IgnoredInput,
    IgnoredToolError,
    ConversationReset,
    HistoryLoss,
    PrematureEnd,
    NoEnd,
    NoVerification,
    StaleVerification,
    ClaimWithoutEvidence,
    NoQuorum,
    BadVote,
    Orphan,
    UnknownAddressee,
    OutOfOrder,
    PlanChurn,
    PlanCoverage,
    RoleViolation,
    ErrorBurst,
    Refused,
    MalformedCall,
    CostShare,
    LimitReached,
    Imbalance,
    CriticalPath,
    ClockSkew,
    Redelivery,
    GivenUp,
    Duplicate,
    UnreadableEntry,
    FailedAttempt,
    Throttled,
)
"""Every detector."""
