"""The bus: connect, append under a guard, read, follow, wait, be woken.

``async with connect(url, name="web") as bus`` gives a :class:`Bus`. This folder is the only one
that imports nats.
"""

from threadbus.bus._logging import SteadyLog
from threadbus.bus.appended import Appended
from threadbus.bus.artifacts import (
    Artifacts,
)
from threadbus.bus.assignments import Assigned, Job
from threadbus.bus.bus import (
    Bus,
)
from threadbus.bus.connection import connect
from threadbus.bus.conversations import DEFAULT_PAUSE, LONGEST_PAUSE, Conversations
from threadbus.bus.errors import (
    AppendError,
    AppendTimeoutError,
    BusError,
    ClosedError,
    ConflictError,
    ConnectError,
    InvalidTransitionError,
    JetStreamMissingError,
    NoServerError,
    NotAdmittedError,
    NotAParticipantError,
    PayloadTooLargeError,
    PermissionDeniedError,
    ReadError,
    ReadTimeoutError,
    ServerTooOldError,
    StorageFullError,
    StreamMismatchError,
    TaskFailedError,
    TaskNotFoundError,
    TeamLimitError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
)
from threadbus.bus.facts import ServerFacts, StorageFacts, StreamFacts, StreamKind, WaitingMention
from threadbus.bus.floor import MAX_PAUSES, Pause, is_pause, legal_moves
from threadbus.bus.following import (
    Entry,
)
from threadbus.bus.forks import (
    Forks,
)
from threadbus.bus.guarding import (
    DEFAULT_TIMES,
    Runaway,
    RunawayGuard,
    RunawayHandler,
    record_runaway,
)
from threadbus.bus.health import (
    AccountFacts,
    ConsumerFacts,
    Expiry,
    Forgotten,
    Health,
    Operations,
    ReplicaFacts,
    SourceFacts,
    StreamHealth,
    Unseen,
)
from threadbus.bus.inbox import (
    Delivery,
    Inbox,
)
from threadbus.bus.limit_errors import RateLimitedError
from threadbus.bus.limits import EVERYBODY, AppliedLimits, Limit, Limits, Rule
from threadbus.bus.live import (
    LiveHandler,
)
from threadbus.bus.outcomes import (
    Answer,
    AssignmentResult,
    MentionFailedError,
    VoteResult,
)
from threadbus.bus.registry import (
    LivingAgent,
    Registry,
    new_instance,
)
from threadbus.bus.settings import (
    SETTINGS,
    BusSettings,
    InvalidSettingError,
    SettingInfo,
)
from threadbus.bus.state import (
    InputRequest,
    TaskState,
    ThreadState,
    fold_task,
)
from threadbus.bus.store_errors import (
    AgentNameTakenError,
    AgentReplacedError,
    ArtifactCorruptError,
    ArtifactError,
    ArtifactNotFoundError,
    ArtifactNotStoredError,
    ArtifactTooLargeError,
    RegistryError,
)
from threadbus.bus.summaries import (
    TaskSummary,
)
from threadbus.bus.tasks import (
    Tasks,
)
from threadbus.bus.threads import (
    Threads,
)
from threadbus.bus.waits import (
    DEFAULT_WAIT,
    Waits,
)
from threadbus.bus.whole_log import (
    LogConsumer,
)

__all__ = [
    "DEFAULT_PAUSE",
    "DEFAULT_TIMES",
    "DEFAULT_WAIT",
    "EVERYBODY",
    "LONGEST_PAUSE",
    "MAX_PAUSES",
    "SETTINGS",
    "AccountFacts",
    "AgentNameTakenError",
    "AgentReplacedError",
    "Answer",
    "AppendError",
    "AppendTimeoutError",
    "Appended",
    "AppliedLimits",
    "ArtifactCorruptError",
    "ArtifactError",
    "ArtifactNotFoundError",
    "ArtifactNotStoredError",
    "ArtifactTooLargeError",
    "Artifacts",
    "Assigned",
    "AssignmentResult",
    "Bus",
    "BusError",
    "BusSettings",
    "ClosedError",
    "ConflictError",
    "ConnectError",
    "ConsumerFacts",
    "Conversations",
    "Delivery",
    "Entry",
    "Expiry",
    "Forgotten",
    "Forks",
    "Health",
    "Inbox",
    "InputRequest",
    "InvalidSettingError",
    "InvalidTransitionError",
    "JetStreamMissingError",
    "Job",
    "Limit",
    "Limits",
    "LiveHandler",
    "LivingAgent",
    "LogConsumer",
    "MentionFailedError",
    "NoServerError",
    "NotAParticipantError",
    "NotAdmittedError",
    "Operations",
    "Pause",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "RateLimitedError",
    "ReadError",
    "ReadTimeoutError",
    "Registry",
    "RegistryError",
    "ReplicaFacts",
    "Rule",
    "Runaway",
    "RunawayGuard",
    "RunawayHandler",
    "ServerFacts",
    "ServerTooOldError",
    "SettingInfo",
    "SourceFacts",
    "SteadyLog",
    "StorageFacts",
    "StorageFullError",
    "StreamFacts",
    "StreamHealth",
    "StreamKind",
    "StreamMismatchError",
    "TaskFailedError",
    "TaskNotFoundError",
    "TaskState",
    "TaskSummary",
    "Tasks",
    "TeamLimitError",
    "ThreadClosedError",
    "ThreadNotFoundError",
    "ThreadState",
    "Threads",
    "UnknownAgentError",
    "Unseen",
    "VoteResult",
    "WaitTimeoutError",
    "WaitingMention",
    "Waits",
    "connect",
    "fold_task",
    "is_pause",
    "legal_moves",
    "new_instance",
    "record_runaway",
]
