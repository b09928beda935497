"""A bus in memory for unit tests, held to the real one by a suite that runs on both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from datetime import timedelta
from typing import Final

from threadbus.bus.bus import Bus
from threadbus.bus.connection import opened
from threadbus.bus.errors import AppendError, StorageFullError
from threadbus.bus.facts import ServerFacts, StorageFacts, StreamFacts, StreamKind
from threadbus.bus.health import Health, StreamHealth
from threadbus.bus.settings import BusSettings
from threadbus.bus.testing.buckets import MemoryBucket, MemoryLive, MemoryObjects
from threadbus.bus.testing.clock import Clock
from threadbus.bus.testing.inbox import MemoryInboxes
from threadbus.bus.testing.log import LogStore, MemoryLog
from threadbus.schemas import LOG_SUBJECTS, parse_agent_name

MAX_PAYLOAD: Final = 1024 * 1024
"""Bytes of one message, its headers included; what a NATS server takes unless it is told else."""


class InMemoryBackend:
    """What a server keeps, in memory: log, inboxes, registry, artifacts, live messages.

    Several names share one backend as several processes share one server. Time stands still for
    leases, delays and times to live until :meth:`advance`. How long a wait takes at most
    (``timeout=`` of the waits) is measured by the event loop as ever.

    Args:
        max_payload: bytes of one message, its headers included.
    """

    def __init__(self, *, max_payload: int = MAX_PAYLOAD) -> None:
        self._clock = Clock()
        self.inboxes = MemoryInboxes(self._clock)
        self._store = LogStore(self._clock, self.inboxes.deliver)
        self._max_payload = max_payload
        self.log = MemoryLog(self._store, max_payload)
        self.agents = MemoryBucket(self._clock)
        self.presence = MemoryBucket(self._clock)
        self._positions = MemoryBucket(self._clock)
        self.objects = MemoryObjects()
        self.live = MemoryLive()

    # knobs for tests

    def advance(self, duration: timedelta) -> None:
        """Let time pass: leases run out, delayed mentions return, keys with a time to live go.

        All that is due happens before this returns, in the order of its time; tasks that wait
        for it run at the caller's next ``await``.

        Raises:
            ValueError: *duration* is negative.
        """
        self._clock.advance(duration)

    def fail_next(
        self, error: AppendError | None = None, *, times: int = 1, where: str = LOG_SUBJECTS
    ) -> None:
        """Refuse the next appends: they raise *error* and nothing is stored.

        Args:
            error: what the caller gets; a full storage when absent.
            times: how many appends.
            where: only those on subjects that match, with the wildcards of NATS:
                ``bus.*.*.obs.>`` are all observations.
        """
        self._store.add_fault(where, error or StorageFullError("made to fail by a test"), times)

    def lose_next_acknowledgement(self, *, times: int = 1, where: str = LOG_SUBJECTS) -> None:
        """Store the next appends, and let each be sent a second time as after a lost answer.

        The caller gets ``duplicate=True``, and the log has the event once.
        """
        self._store.add_fault(where, None, times)

    # what a bus needs (see threadbus.bus.ports.Backend)

    async def ensure(self) -> None:
        """Everything is there from the start."""

    async def positions(self) -> MemoryBucket:
        """Return where consumers of the whole log keep how far they got."""
        return self._positions

    async def facts(self) -> ServerFacts:
        """Return what stands for the server."""
        return ServerFacts(
            version="in memory",
            url="memory:",
            max_payload=self._max_payload,
            name="threadbus.bus.testing",
        )

    async def storage(self) -> StorageFacts:
        """Return what stands for the streams: the log alone."""
        last = await self.log.last_seq()
        log = StreamFacts(
            name="BUS", exists=True, kind=StreamKind.LOG, messages=last, last_seq=last
        )
        return StorageFacts(streams=(log,), server_time=self._clock.now())

    async def health(self, streams: Sequence[str]) -> Health:
        """Return what stands for the health of a server: everything is well."""
        return Health(
            streams=tuple(
                StreamHealth(name=name, created_at=0, leader="memory", copies=1) for name in streams
            )
        )

    async def drop_mentions(self, agent: str, stream: str) -> int:
        """Take what waits for *agent* out of its inbox; return how many."""
        return self.inboxes.drop(agent, stream)

    async def drain(self, deadline: timedelta) -> None:
        """Nothing is outstanding: an append is stored when it is sent."""


@asynccontextmanager
async def connect_in_memory(
    name: str = "user",
    *,
    backend: InMemoryBackend | None = None,
    settings: BusSettings | None = None,
) -> AsyncGenerator[Bus]:
    """Open a bus in memory: ``async with connect_in_memory("web") as bus``.

    It behaves as one from :func:`threadbus.bus.connect` does, without a server. ``BUS_…``
    variables are not looked at.

    Args:
        name: who speaks.
        backend: where to; several names given the same one talk to each other. A new, empty one
            when absent.
        settings: bounds and times; the defaults when absent.

    Raises:
        InvalidNameError: the name is outside the grammar.
    """
    speaker = parse_agent_name(name)
    own = copy(backend or InMemoryBackend())
    own.inboxes = own.inboxes.of_one_connection()
    with opened(own) as connection:
        try:
            yield Bus(connection, settings or BusSettings(), speaker)
        finally:
            own.inboxes.close()
