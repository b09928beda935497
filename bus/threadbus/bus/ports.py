"""What the bus needs of whatever keeps the log: five small roles.

``threadbus.bus`` is written against these. NATS JetStream fills them in production, and a twin in
memory (:mod:`threadbus.bus.testing`) in unit tests; one contract suite runs on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from threadbus.bus.health import Health

from threadbus.bus.facts import ServerFacts, StorageFacts, WaitingMention


class StoredMessage(NamedTuple):
    """One message of the log as the server keeps it."""

    seq: int
    subject: str
    body: bytes
    stored_at: int
    """Nanoseconds since the epoch by the server's clock."""
    relayed: bool = False
    """Whether the server put it there as the answer to somebody's request: whoever asked chose the
    subject, and no permission to publish there was needed."""
    misplaced: bool = False
    """Whether it is in a partition in which nobody looks for its super-task."""


class Haste(Enum):
    """When a message is written: a write costs more than what is in it, on both sides."""

    AT_ONCE = "at once"
    """Somebody waits for it."""
    SOON = "soon"
    """With what is sent next and before it, or after a moment."""
    LAST = "last"
    """After a moment, together with what else is to come last: never with what somebody waits for,
    since the server would work on both before it delivers the one."""


class Position(NamedTuple):
    """Where an append landed."""

    seq: int
    duplicate: bool
    """Whether the message was there already, by its id."""


class Guard(NamedTuple):
    """A condition on an append: the last sequence on *subject* is still *last_seq*."""

    subject: str
    last_seq: int
    behind: str = ""
    """And, where it is given, the last message of the whole partition is the one of this id."""


class GuardFailedError(Exception):
    """The guard did not hold; the caller reloads and decides. Never leaves this folder."""

    def __init__(self, last_seq: int, *, resent: bool = False) -> None:
        super().__init__(last_seq)
        self.last_seq = last_seq
        self.resent = resent
        """Whether an earlier copy of the same message may have been stored."""


class KeyEntry(NamedTuple):
    """A value of a key-value bucket."""

    key: str
    value: bytes
    revision: int


class InboxMessage(Protocol):
    """One mention that an agent holds under a lease."""

    @property
    def subject(self) -> str:
        """The subject that the event was published on."""
        ...

    @property
    def body(self) -> bytes:
        """The event."""
        ...

    @property
    def seq(self) -> int:
        """The event's sequence in the log."""
        ...

    @property
    def relayed(self) -> bool:
        """Whether it got into the log as an answer of the server; see :class:`StoredMessage`."""
        ...

    @property
    def misplaced(self) -> bool:
        """Whether it is in no partition of the log that it belongs to."""
        ...

    @property
    def stored_at(self) -> int:
        """Nanoseconds since the epoch when it was put into the inbox."""
        ...

    @property
    def deliveries(self) -> int:
        """How often it was delivered since the inbox was last created, from 1."""
        ...

    async def ack(self) -> None:
        """Say that it was handled; it never comes again."""
        ...

    async def nak(self, delay: timedelta) -> None:
        """Give it back; it comes again after *delay*."""
        ...

    async def in_progress(self) -> None:
        """Extend the lease."""
        ...


MessageHandler: TypeAlias = Callable[[StoredMessage], None]
DataHandler: TypeAlias = Callable[[str, bytes], None]
LossHandler: TypeAlias = Callable[[], None]


class LogPort(Protocol):
    """The append-only log."""

    @property
    def max_payload(self) -> int:
        """Bytes of one message, its headers included."""
        ...

    @property
    def partitions(self) -> int:
        """Over how many streams it is spread; a super-task is whole in one of them."""
        ...

    @property
    def tail_is_whole(self) -> bool:
        """Whether a tail misses nothing between two calls of its loss handler."""
        ...

    @property
    def can_chain(self) -> bool:
        """Whether an append may be on condition of the one before (:attr:`Guard.behind`)."""
        ...

    async def append(
        self,
        subject: str,
        body: bytes,
        *,
        msg_id: str,
        guard: Guard | None,
        headers: Mapping[str, str],
        timeout: timedelta,
        haste: Haste = Haste.AT_ONCE,
    ) -> asyncio.Future[Position]:
        """Send a message and return a future of where it landed; waits only for room.

        The future ends with GuardFailedError, or with an AppendError, in any case by *timeout*.
        Messages of one connection are stored in the order of these calls, but for those sent
        ``LAST``.
        """
        ...

    def read(
        self, subject: str, after: int, limit: int, partition: int | None = None
    ) -> AsyncGenerator[list[StoredMessage]]:
        """Read up to *limit* messages that match, later than *after*, in batches.

        A *subject* that may be of any super-task needs the *partition*. Whoever leaves it before
        its end closes it.
        """
        ...

    async def last_seq(self, partition: int = 0) -> int:
        """Return the last sequence of one partition of the log."""
        ...

    async def last_per_subject(self, subject: str, limit: int) -> list[StoredMessage]:
        """Return the last message of each subject that matches, oldest first."""
        ...

    def tail(
        self,
        subject: str,
        handler: MessageHandler,
        on_loss: LossHandler,
        partition: int | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Call *handler* with each matching message of a partition once it is stored.

        *on_loss* is called when some may have been missed: read the log again.
        """
        ...


class InboxPort(Protocol):
    """Durable inboxes, one for each agent."""

    @property
    def streams(self) -> Sequence[str]:
        """Every stream that has inboxes."""
        ...

    def stream_of(self, agent: str) -> str:
        """Return the stream that has the inbox of *agent*."""
        ...

    def pull(
        self, agent: str, stream: str, ack_wait: timedelta, *, sole: bool = False
    ) -> AbstractAsyncContextManager[InboxPull]:
        """Attach to the inbox of *agent*, creating it where it is not.

        Args:
            agent: whose.
            stream: where it is.
            ack_wait: how long a mention is leased.
            sole: nobody else pulls from it.
        """
        ...

    async def push(self, agent: str, stream: str, ack_wait: timedelta) -> None:
        """Have the mentions of *agent* pushed to ``inbox.<agent>``, instead of pulled."""
        ...

    async def remove(self, agent: str, stream: str) -> None:
        """Take the inbox away; mentions that wait in it are kept by the stream."""
        ...

    async def pending(self, stream: str) -> Mapping[str, int]:
        """Return how many mentions wait for each agent."""
        ...

    async def oldest(self, agent: str, stream: str) -> WaitingMention | None:
        """Return the mention that has waited longest for *agent*, or None where none does."""
        ...


class InboxPull(Protocol):
    """An attached inbox."""

    async def next(self, room: int) -> InboxMessage:
        """Return the next mention; at most *room* are held ahead."""
        ...


class KeyValuePort(Protocol):
    """One key-value bucket."""

    async def get(self, key: str) -> KeyEntry | None:
        """Return the value of *key*."""
        ...

    async def put(
        self, key: str, value: bytes, *, revision: int | None = None, ttl: timedelta | None = None
    ) -> int:
        """Set *key* and return its revision.

        With *revision* only when that is the current one (0: the key must not exist), otherwise
        GuardFailedError; with *ttl* the key goes away by itself after so many whole seconds, at
        least one.
        """
        ...

    async def delete(self, key: str) -> None:
        """Take *key* away."""
        ...

    async def entries(self, prefix: str = "") -> Sequence[KeyEntry]:
        """Return every key that starts with *prefix*."""
        ...

    def watch(self, key: str, handler: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call *handler* when *key* may have changed; also several times for one change."""
        ...


class ObjectPort(Protocol):
    """The object store."""

    async def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        ...

    async def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        ...

    async def get(self, name: str, limit: int) -> bytes | None:
        """Return an object, or None where there is none.

        Raises:
            ArtifactTooLargeError: it has more than *limit* bytes.
        """
        ...


class LivePort(Protocol):
    """Messages that are never stored."""

    async def publish(self, subject: str, body: bytes) -> None:
        """Send to whoever listens now."""
        ...

    def subscribe(self, subject: str, handler: DataHandler) -> AbstractAsyncContextManager[None]:
        """Call *handler* with the subject and body of each message."""
        ...


class Backend(Protocol):
    """Everything together, for as long as a connection lasts."""

    @property
    def log(self) -> LogPort:
        """The log."""
        ...

    @property
    def inboxes(self) -> InboxPort:
        """The inboxes."""
        ...

    @property
    def agents(self) -> KeyValuePort:
        """The registry."""
        ...

    @property
    def presence(self) -> KeyValuePort:
        """Heartbeats."""
        ...

    async def positions(self) -> KeyValuePort:
        """Return where consumers of the whole log keep how far they got, made if need be."""
        ...

    @property
    def objects(self) -> ObjectPort:
        """The object store."""
        ...

    @property
    def live(self) -> LivePort:
        """Messages that are never stored."""
        ...

    async def ensure(self) -> None:
        """Create what is missing, check what is there."""
        ...

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        ...

    async def storage(self) -> StorageFacts:
        """Return what is known of the streams; makes none."""
        ...

    async def health(self, streams: Sequence[str]) -> Health:
        """Return what an operator wants to know of *streams* and the account; makes none."""
        ...

    async def drop_mentions(self, agent: str, stream: str) -> int:
        """Take what waits for *agent* out of its inbox; return how many."""
        ...

    async def drain(self, deadline: timedelta) -> None:
        """Wait for outstanding appends, at most until *deadline*."""
        ...
