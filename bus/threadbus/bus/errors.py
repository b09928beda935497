"""What can go wrong between a caller and the log.

ThreadbusError
└── BusError
    ├── ConnectError                    no usable server behind the URL
    │   ├── NoServerError               nothing answers there
    │   ├── NotAdmittedError            the server does not know the credentials
    │   ├── ServerTooOldError           a nats-server before 2.12
    │   ├── JetStreamMissingError       a server without JetStream
    │   └── StreamMismatchError         a stream that is not as threadbus needs it
    ├── ClosedError                     the bus was closed
    ├── AppendError                     an event that was not appended
    │   ├── TaskNotFoundError           no such super-task
    │   ├── ThreadNotFoundError         no such thread in it
    │   ├── ThreadClosedError           the thread (or the whole task) has ended
    │   ├── NotAParticipantError        a sender or a mention from outside the thread
    │   ├── UnknownAgentError           a name that nobody has registered
    │   ├── ConflictError               others kept changing the thread
    │   ├── InvalidTransitionError      not allowed in the state that the task is in
    │   ├── TeamLimitError              more members, or deeper, than a thread allows
    │   ├── PayloadTooLargeError        more bytes than the server takes
    │   ├── StorageFullError            the server has no room
    │   ├── PermissionDeniedError       the server refuses this identity
    │   ├── AppendTimeoutError          no acknowledgement in time
    │   └── RateLimitedError            see limit_errors
    ├── ReadError                       the log could not be read
    │   └── ReadTimeoutError            no answer in time
    ├── WaitTimeoutError                what was waited for did not come in time
    ├── TaskFailedError                 a super-task ended without an answer
    ├── RegistryError, ArtifactError    see store_errors
    └── EmbeddedServerError             see server_errors
"""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.bus.roles import who_may
from threadbus.schemas import MAIN_THREAD, ThreadbusError, shorten


class BusError(ThreadbusError):
    """Something went wrong between a caller and the log."""


class ConnectError(BusError):
    """There is no usable server behind the URL."""


class NoServerError(ConnectError):
    """Nothing answers at the URL."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"no NATS server at {self.url} ({self.reason}); start one with `bus up`, "
            "or say where it is with --url or BUS_URL"
        )


class NotAdmittedError(ConnectError):
    """The server does not let in who has these credentials, or none."""

    def __init__(self, url: str, credentials: str, reason: str) -> None:
        super().__init__(url, credentials, reason)
        self.url = url
        self.credentials = credentials
        """The file with them; empty where there were none."""
        self.reason = reason

    def __str__(self) -> str:
        if not self.credentials:
            return (
                f"the server at {self.url} lets nobody in without credentials ({self.reason}); "
                "ask its operator for an nkey (`bus auth add-agent NAME`) and give the file with "
                "--nkey or BUS_NKEY"
            )
        return (
            f"the server at {self.url} does not admit {self.credentials} ({self.reason}): it was "
            "never added, or was rotated or revoked; its operator sees who there is with "
            "`bus auth list` and makes a new key with `bus auth add-agent` or `bus auth rotate`"
        )


class ServerTooOldError(ConnectError):
    """The server lacks what the streams need."""

    def __init__(self, url: str, version: str, needed: str) -> None:
        super().__init__(url, version, needed)
        self.url = url
        self.version = version
        self.needed = needed

    def __str__(self) -> str:
        return (
            f"nats-server {self.version} at {self.url} is too old: threadbus needs {self.needed} "
            "or newer; `bus up` starts one"
        )


class JetStreamMissingError(ConnectError):
    """The server runs without JetStream."""

    def __init__(self, url: str, reason: str = "") -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return (
            f"the server at {self.url} has no JetStream for this account{why}; "
            "start it with `-js`, or enable jetstream in its configuration"
        )


class StreamMismatchError(ConnectError):
    """A stream exists and cannot be brought to what threadbus needs."""

    def __init__(self, stream: str, differences: Sequence[str]) -> None:
        super().__init__(stream, tuple(differences))
        self.stream = stream
        self.differences = tuple(differences)

    def __str__(self) -> str:
        return (
            f"stream {self.stream} is not as threadbus needs it: {'; '.join(self.differences)}; "
            "change it by hand, or use another account or server"
        )


class ClosedError(BusError):
    """The bus was closed before this call."""

    def __init__(self, what: str = "the bus") -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed; open a new one with `async with connect(...)`"


class AppendError(BusError):
    """An event was not appended."""


class TaskNotFoundError(AppendError):
    """There is no such super-task."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"no super-task {self.task} in the log; `bus tasks` lists the newest"


class ThreadNotFoundError(AppendError):
    """There is no such thread in the super-task."""

    def __init__(self, task: str, thread: str, known: Sequence[str] = ()) -> None:
        super().__init__(task, thread, tuple(known))
        self.task = task
        self.thread = thread
        self.known = tuple(known)

    def __str__(self) -> str:
        known = f"; its threads are {', '.join(self.known)}" if self.known else ""
        return f"no thread {shorten(self.thread)!r} in super-task {self.task}{known}"


class ThreadClosedError(AppendError):
    """The thread has ended; its summary says how."""

    def __init__(self, task: str, thread: str, outcome: str, summary: str = "") -> None:
        super().__init__(task, thread, outcome, summary)
        self.task = task
        self.thread = thread
        self.outcome = outcome
        self.summary = summary

    def __str__(self) -> str:
        summary = f": {shorten(self.summary, 200)}" if self.summary else ""
        return (
            f"thread {self.thread} of super-task {self.task} is closed ({self.outcome}){summary}; "
            f"open {'' if self.thread == MAIN_THREAD else 'another thread or '}a new super-task"
        )


class NotAParticipantError(AppendError):
    """A sender or a mention is not in the thread."""

    def __init__(
        self, names: Sequence[str], task: str, thread: str, participants: Sequence[str]
    ) -> None:
        super().__init__(tuple(names), task, thread, tuple(participants))
        self.names = tuple(names)
        self.task = task
        self.thread = thread
        self.participants = tuple(participants)

    def __str__(self) -> str:
        are = "is not a participant" if len(self.names) == 1 else "are not participants"
        return (
            f"{', '.join(self.names)} {are} of thread {self.thread} in super-task {self.task}; "
            f"its participants are {', '.join(self.participants)}: add one, or mention one of these"
        )


class UnknownAgentError(AppendError):
    """Nobody has registered this name."""

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(name, tuple(nearest))
        self.name = name
        self.nearest = tuple(nearest)

    def __str__(self) -> str:
        near = f"did you mean {' or '.join(self.nearest)}? " if self.nearest else ""
        return f"no agent {shorten(self.name)!r} is registered; {near}`bus agents` lists them"


class ConflictError(AppendError):
    """Others changed the thread each time that this append was tried."""

    def __init__(self, subject: str, attempts: int, last_seq: int) -> None:
        super().__init__(subject, attempts, last_seq)
        self.subject = subject
        self.attempts = attempts
        self.last_seq = last_seq

    def __str__(self) -> str:
        return (
            f"{self.subject} was refused {self.attempts} times because the thread changed "
            f"(last at sequence {self.last_seq}); try again"
        )


class InvalidTransitionError(AppendError):
    """The task is in a state that does not allow this."""

    def __init__(self, what: str, state: str, allowed: Sequence[str]) -> None:
        super().__init__(what, state, tuple(allowed))
        self.what = what
        self.state = state
        self.allowed = tuple(allowed)

    def __str__(self) -> str:
        return f"{self.what} is not possible: {self.state}; possible: {', '.join(self.allowed)}"


class TeamLimitError(AppendError, ValueError):
    """A team would be larger, or lie deeper, than its thread allows."""

    def __init__(self, kind: str, count: int, limit: int, title: str) -> None:
        super().__init__(kind, count, limit, title)
        self.kind = kind
        """``members`` or ``depth``."""
        self.count = count
        self.limit = limit
        self.title = title

    def __str__(self) -> str:
        team = f"team {shorten(self.title)!r}"
        if self.kind == "depth":
            return (
                f"{team} needs {self.count} levels of threads and {self.limit} are allowed below "
                "its parent: do the work without a team, or open the parent with a larger max_depth"
            )
        return (
            f"{team} would have {self.count} members and {self.limit} are allowed: choose fewer, "
            "let them form teams of their own, or open it with a larger max_members"
        )


class PayloadTooLargeError(AppendError, ValueError):
    """The event has more bytes than the server takes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the event has {self.size:,} bytes with its headers and the server takes "
            f"{self.limit:,}: attach large parts as artifacts, or raise max_payload"
        )


class StorageFullError(AppendError):
    """The server has no room for the event."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the server has no room for the event ({self.reason}); nothing was stored and "
            "reading still works: give JetStream more storage"
        )


class PermissionDeniedError(AppendError):
    """The server does not let this identity publish or subscribe there."""

    def __init__(self, action: str, subject: str) -> None:
        super().__init__(action, subject)
        self.action = action
        self.subject = subject

    def __str__(self) -> str:
        return (
            f"the server does not allow {self.action} on {self.subject} with these credentials; "
            f"{who_may(self.subject)}"
        )


class AppendTimeoutError(AppendError, TimeoutError):
    """No acknowledgement came in time; the event may or may not be in the log."""

    def __init__(self, event_id: str, seconds: float) -> None:
        super().__init__(event_id, seconds)
        self.event_id = event_id
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"no acknowledgement of event {self.event_id} within {self.seconds:g} s; append the "
            "same event again, its id keeps it from being stored twice"
        )


class ReadError(BusError):
    """The log could not be read."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"could not read {self.what}: {self.reason}"


class ReadTimeoutError(ReadError, TimeoutError):
    """The server did not answer a read in time."""


class WaitTimeoutError(BusError, TimeoutError):
    """What was waited for did not come in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what = what
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.what} did not come within {self.seconds:g} s; wait again, nothing is lost"


class TaskFailedError(BusError):
    """A super-task ended without an answer."""

    def __init__(self, task: str, outcome: str, reason: str) -> None:
        super().__init__(task, outcome, reason)
        self.task = task
        self.outcome = outcome
        self.reason = reason

    def __str__(self) -> str:
        why = f": {shorten(self.reason, 400)}" if self.reason else ""
        return f"super-task {self.task} ended {self.outcome}{why}; `busreplay {self.task}` tells"
