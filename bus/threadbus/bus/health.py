"""What an operator looks at: facts for `bus doctor` and for metrics, and the log for who counts.

Nothing here judges, and nothing is made. What these credentials may not see is named in
:attr:`Health.unseen`; the rest is told all the same. The one thing that changes anything is
:meth:`Operations.forget`.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Self

from threadbus.bus.errors import BusError, PermissionDeniedError
from threadbus.bus.following import Entry, Follower, decode_entry
from threadbus.bus.ports import Backend, KeyEntry
from threadbus.bus.reading import LogReader
from threadbus.schemas import (
    LOG_SUBJECTS,
    AgentRecord,
    SchemaError,
    parse_agent_name,
    partition_start,
)
from threadbus.schemas import decode_entry as decode_value

MAX_RECENT: Final = 100_000
"""Entries of the log that are looked at from its end, at most."""


@dataclass(frozen=True, kw_only=True)
class SourceFacts:
    """How far a stream is behind one of those that it is filled from."""

    stream: str
    """Where it comes from."""
    lag: int
    """Messages that have not arrived yet."""
    silent_ns: int | None
    """Nanoseconds since the server last heard of it; None where it never did."""
    error: str = ""
    """What the server says is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class ReplicaFacts:
    """One of the servers that keep a copy of a stream, besides its leader."""

    server: str
    current: bool
    offline: bool
    lag: int
    """Operations that it is behind."""
    silent_ns: int
    """Nanoseconds since its leader last heard of it."""


@dataclass(frozen=True, kw_only=True)
class StreamHealth:
    """What is known of a stream beyond its size (see :class:`.StreamFacts`)."""

    name: str
    created_at: int
    """Nanoseconds since the epoch."""
    leader: str
    """The server that leads it; empty where none does."""
    copies: int
    """Servers that should keep it."""
    replicas: tuple[ReplicaFacts, ...] = ()
    sources: tuple[SourceFacts, ...] = ()
    max_bytes: int | None = None
    """None where it is not bounded."""
    max_messages: int | None = None
    max_consumers: int | None = None


@dataclass(frozen=True, kw_only=True)
class ConsumerFacts:
    """One consumer: an agent's inbox, where its name says so."""

    stream: str
    name: str
    agent: str
    """Whose inbox it is; empty where it is none."""
    created_at: int
    pending: int
    """Messages that were not delivered yet."""
    unacknowledged: int
    """Delivered and not settled."""
    max_unacknowledged: int
    redelivered: int
    """Of those that are not settled: delivered more than once."""
    listeners: int
    """Requests that wait for a message; of a pushed one, 1 where somebody listens."""


@dataclass(frozen=True, kw_only=True)
class AccountFacts:
    """What this account has taken of the server, and how much it may take; None is unbounded."""

    file_bytes: int
    max_file_bytes: int | None
    memory_bytes: int
    max_memory_bytes: int | None
    streams: int
    max_streams: int | None
    consumers: int
    max_consumers: int | None


@dataclass(frozen=True, kw_only=True)
class Expiry:
    """A certificate or a token that ends."""

    what: str
    at: int
    """Nanoseconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """What these credentials may not see, or what the server did not tell."""

    what: str
    reason: str
    denied: bool
    """Whether these credentials may not see it; otherwise the server did not tell."""

    @classmethod
    def because(cls, what: str, error: BusError | TimeoutError) -> Self:
        """Note that *what* could not be looked at."""
        denied = isinstance(error, PermissionDeniedError)
        return cls(what=what, reason=str(error) or "no answer in time", denied=denied)


@dataclass(frozen=True, kw_only=True)
class Health:
    """Everything that can be seen of a server at one moment."""

    streams: tuple[StreamHealth, ...] = ()
    consumers: tuple[ConsumerFacts, ...] = ()
    account: AccountFacts | None = None
    expiries: tuple[Expiry, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    def stream(self, name: str) -> StreamHealth | None:
        """Return what is known of the stream of that name."""
        return next((stream for stream in self.streams if stream.name == name), None)


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What was taken away of an agent."""

    agent: str
    registered: bool
    """Whether it had a record."""
    waiting: int
    """Mentions that waited for it."""
    dropped: int
    """How many of those were taken out of its inbox; they stay in the log."""


class Operations:
    """A bus as its operator sees it; :attr:`Bus.operations`."""

    def __init__(self, backend: Backend, log: LogReader) -> None:
        self._backend = backend
        self._log = log

    async def health(self) -> Health:
        """Look at the streams, their sources and copies, the inboxes and the account.

        Raises:
            ReadError: the server does not answer at all.

        Cancellation: safe.
        """
        streams = (await self._backend.storage()).streams
        return await self._backend.health([one.name for one in streams if one.exists])

    async def recent(self, limit: int = 10_000, partition: int | None = None) -> list[Entry]:
        """Return the last entries of the log, oldest first; bytes that are no event among them.

        Args:
            limit: 1 to :data:`MAX_RECENT`.
            partition: of a log that is spread; of all of them when absent, by time.

        Raises:
            ReadError: the server refused or did not answer.
            ValueError: *limit* is outside its bounds.

        Cancellation: safe.
        """
        if not 1 <= limit <= MAX_RECENT:
            raise ValueError(f"limit is {limit:,}; from 1 to {MAX_RECENT:,}")
        log = self._backend.log
        if partition is None:
            every = [await self.recent(limit, number) for number in range(log.partitions)]
            whole = [entry for entries in every for entry in entries]
            return sorted(whole, key=lambda entry: entry.stored_at)[-limit:]
        after = max(partition_start(partition), await log.last_seq(partition) - limit)
        found: list[Entry] = []
        async with aclosing(log.read(LOG_SUBJECTS, after, limit, partition)) as batches:
            async for batch in batches:
                found += [decode_entry(message) for message in batch]
        return found

    def following(self, after: int = 0, partition: int = 0) -> Follower:
        """Read the whole log, or a partition of it, and go on live, keeping nothing on the server.

        ``async with bus.operations.following() as entries``. For a position that the server keeps
        see :meth:`Bus.consuming`.

        Args:
            after: only what is later than this sequence.
            partition: of a log that is spread.

        Cancellation: safe; go on with the last sequence seen.
        """
        return self._log.following_all(after, partition)

    async def last_seq(self, partition: int = 0) -> int:
        """Return the last sequence of the log, or of a partition of it.

        Raises:
            ReadError: the server refused or did not answer.
        """
        return await self._backend.log.last_seq(partition)

    async def forget(self, agent: str, *, drop_mentions: bool = False) -> Forgotten:
        """Take an agent's record and its inbox away. Its events stay in the log. Idempotent.

        Whether it is living is for the caller to look at.

        Args:
            agent: its name.
            drop_mentions: also drop the mentions that wait for it; otherwise they wait for
                whoever takes the name next.

        Raises:
            InvalidNameError: the name is outside the grammar.
            BusError: the server refused a step; the steps before it are done. Call it again.

        Cancellation: as for an error.
        """
        name = parse_agent_name(agent)
        entry = await self._backend.agents.get(name)
        streams = {one.name for one in (await self.health()).streams if one.sources}
        if entry is not None:
            streams |= _inbox_of(entry)
        waiting = dropped = 0
        for stream in sorted(streams):
            waiting += (await self._backend.inboxes.pending(stream)).get(name, 0)
            await self._backend.inboxes.remove(name, stream)
            if drop_mentions:
                dropped += await self._backend.drop_mentions(name, stream)
        # The record last: as long as it is there, it shows that something is left.
        if entry is not None:
            await self._backend.agents.delete(name)
        return Forgotten(agent=name, registered=entry is not None, waiting=waiting, dropped=dropped)


def _inbox_of(entry: KeyEntry) -> set[str]:
    try:
        return {decode_value(entry.value, AgentRecord).inbox_stream}
    except SchemaError:
        return set()
