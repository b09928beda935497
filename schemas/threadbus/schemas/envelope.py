"""The event: one envelope for every type, frozen."""

from __future__ import annotations

import time

import msgspec

from threadbus.schemas.bounds import Count, HexId, Mentioned, TimeNs
from threadbus.schemas.events import AnyData, EventClass, OpaqueData
from threadbus.schemas.ids import AgentName, EventId, TaskId, ThreadId, new_event_id
from threadbus.schemas.subjects import Subject, event_subject


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The event of another super-task that an event is a copy of: the beginning of a fork."""

    task: HexId
    id: HexId
    seq: Count
    """Its sequence in the log."""
    at: TimeNs
    """When the server stored it, in nanoseconds since the epoch."""
    mentions: Mentioned = ()
    """The agents that it woke. A copy wakes nobody."""
    edited: bool = False
    """Whether the copy says something else than it."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One fact in the log of a super-task."""

    v: int = 1
    """The version of the data; each type counts its own."""
    id: EventId
    type: str
    """The name of what the data says, ``message.posted`` for instance."""
    task: TaskId
    thread: ThreadId
    sender: AgentName
    at: int
    """When the sender made it, in nanoseconds since the epoch (the sender's clock)."""
    cause: EventId | None = None
    """The event that this one answers or observes."""
    mentions: tuple[AgentName, ...] = ()
    """The agents that it wakes, each once, at most 16."""
    data: AnyData
    origin: Origin | msgspec.UnsetType = msgspec.UNSET
    """What it is a copy of; absent for an event that was said here."""

    @property
    def copy_of(self) -> Origin | None:
        """What it is a copy of, or nothing."""
        return None if isinstance(self.origin, msgspec.UnsetType) else self.origin

    @property
    def addressees(self) -> tuple[AgentName, ...]:
        """Whom it is for: the agents that it wakes; those that its original woke, of a copy."""
        origin = self.copy_of
        return self.mentions if origin is None else tuple(map(AgentName, origin.mentions))

    @property
    def event_class(self) -> EventClass:
        """The class that the subject carries."""
        data = self.data
        return data.event_class if isinstance(data, OpaqueData) else data.CLASS

    @property
    def subject(self) -> Subject:
        """The subject that the event is published on."""
        return event_subject(self.task, self.thread, self.event_class, self.sender, self.mentions)


def make_event(
    data: AnyData,
    *,
    task: TaskId,
    thread: ThreadId,
    sender: AgentName,
    cause: EventId | None = None,
    mentions: tuple[AgentName, ...] = (),
    event_id: EventId | None = None,
    at: int | None = None,
) -> Event:
    """Make an event from its data; repeated mentions are said once.

    Nothing is checked here: :func:`encode_event` does.

    Args:
        data: what the event says; decides its type and class.
        task: the super-task it belongs to.
        thread: the thread it belongs to.
        sender: who says it.
        cause: the event that it answers, if any.
        mentions: the agents that it wakes, at most 16.
        event_id: its id; a new UUIDv7 when absent.
        at: nanoseconds since the epoch; now when absent.
    """
    return Event(
        v=data.VERSION,
        id=new_event_id() if event_id is None else event_id,
        type=data.TYPE,
        task=task,
        thread=thread,
        sender=sender,
        at=time.time_ns() if at is None else at,
        data=data,
        cause=cause,
        mentions=tuple(dict.fromkeys(mentions)),
    )


class Recorded(msgspec.Struct, frozen=True):
    """An event and its place in the log."""

    seq: int
    """Its sequence in the stream, 1-based; later in the log is greater."""
    event: Event
    stored_at: int = 0
    """When the server stored it, in nanoseconds since the epoch (the server's clock)."""
    body: bytes = b""
    """The event verbatim, as it is stored; empty where it was not read from a log."""


class Rejected(msgspec.Struct, frozen=True):
    """Bytes in the log that are not an event: reported, never fatal."""

    seq: int
    subject: str
    reason: str
    stored_at: int = 0
    """When the server stored it, in nanoseconds since the epoch (the server's clock)."""
    body: bytes = b""
    """The bytes verbatim; empty where they are not kept."""
