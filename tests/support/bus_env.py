"""Where the contract of the bus is tested: in memory and on a private server, by the same tests."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from nats.aio.client import Client

from tests.support.eventually import eventually
from threadbus.bus import Bus, BusSettings, Delivery, Entry, Inbox, connect
from threadbus.bus._nats.backend import open_backend
from threadbus.bus.ports import Backend
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    AnyData,
    Event,
    EventId,
    Parts,
    Recorded,
    TaskId,
    ThreadId,
    encode_event,
    make_event,
    new_event_id,
    partition_start,
    text_of,
)

T = TypeVar("T")

DEADLINE_S: Final = 30.0
"""How long a test waits for what must happen; never how long it must take."""

QUICK: Final = BusSettings(ack_wait=timedelta(seconds=1), presence_ttl=timedelta(seconds=1))
"""Settings under which time that must really pass on a server is short."""


class BusEnv(ABC):
    """One empty bus that several names can be connected to."""

    is_spread = False
    """Whether the log is several streams: between two super-tasks is no order then."""

    @abstractmethod
    def connect(
        self, name: str, settings: BusSettings | None = None
    ) -> AbstractAsyncContextManager[Bus]:
        """Connect a name, as a process of its own would."""

    @abstractmethod
    def backend(self) -> AbstractAsyncContextManager[Backend]:
        """Give the ports beneath a bus, for what no bus would do."""

    @abstractmethod
    def pass_time(self, duration: timedelta) -> None:
        """Let time pass in memory; on a server it passes while the test waits for its effect."""

    @asynccontextmanager
    async def buses(
        self, *names: str, settings: BusSettings | None = None
    ) -> AsyncGenerator[tuple[Bus, ...]]:
        """Connect and register several names."""
        async with AsyncExitStack() as stack:
            found: list[Bus] = []
            for name in names:
                bus = await stack.enter_async_context(self.connect(name, settings))
                await bus.registry.register(AgentCard(name=name), holder=f"holder-of-{name}")
                found.append(bus)
            yield tuple(found)


class MemoryEnv(BusEnv):
    """The twin in memory."""

    def __init__(self) -> None:
        self._backend = InMemoryBackend()

    def connect(
        self, name: str, settings: BusSettings | None = None
    ) -> AbstractAsyncContextManager[Bus]:
        """Connect a name to the twin."""
        return connect_in_memory(name, backend=self._backend, settings=settings)

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        """Give the twin itself."""
        return nullcontext(self._backend)

    def pass_time(self, duration: timedelta) -> None:
        """Let the twin's clock go on."""
        self._backend.advance(duration)


class NatsEnv(BusEnv):
    """A nats-server; its streams are emptied for each test."""

    def __init__(self, url: str, *, partitions: int = 0, inboxes: int = 0) -> None:
        self._url = url
        self.is_spread = partitions > 1
        self._settings = BusSettings(url=url, partitions=partitions, inboxes=inboxes)

    def connect(
        self, name: str, settings: BusSettings | None = None
    ) -> AbstractAsyncContextManager[Bus]:
        """Connect a name to the server."""
        own = self._settings
        given = replace(
            settings or own, url=own.url, partitions=own.partitions, inboxes=own.inboxes
        )
        return connect(given, name=name)

    @asynccontextmanager
    async def backend(self) -> AsyncGenerator[Backend]:
        """Connect past the bus."""
        async with open_backend(self._settings, "raw") as backend:
            await backend.ensure()
            yield backend

    def pass_time(self, duration: timedelta) -> None:
        """Do nothing: it passes by itself."""

    async def clear(self) -> None:
        """Take every stream away."""
        client = Client()
        await client.connect(self._url)
        answer = await client.request("$JS.API.STREAM.NAMES", b"", timeout=10)
        for stream in json.loads(answer.data)["streams"] or ():
            await client.request(f"$JS.API.STREAM.DELETE.{stream}", b"", timeout=10)
        await client.close()


async def soon(awaitable: Awaitable[T]) -> T:
    """Await something that must happen; fail where it does not within the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        return await awaitable


async def comes_to(look: Callable[[], Awaitable[object]], expected: object) -> None:
    """Look again and again until *expected* is there; fail with what was there instead."""
    found: list[object] = []

    async def holds() -> bool:
        found[:] = [await look()]
        return found == [expected]

    await eventually(holds, f"{expected!r} instead of what was there last", DEADLINE_S)


async def take(entries: AsyncIterable[T], count: int) -> list[T]:
    """Take the next *count* items of an iterator that may go on for ever."""
    found: list[T] = []
    async with asyncio.timeout(DEADLINE_S):
        async for entry in entries:
            found.append(entry)
            if len(found) == count:
                break
    return found


async def receive(inbox: Inbox, count: int, *, ack: bool = True) -> list[Delivery]:
    """Take the next *count* mentions of an inbox."""
    found: list[Delivery] = []
    for _ in range(count):
        delivery = await soon(inbox.next())
        found.append(delivery)
        if ack:
            await delivery.ack()
    return found


async def entries_of(bus: Bus, task: TaskId, thread: ThreadId | None = None) -> list[Entry]:
    """Read a super-task, or one thread of it."""
    return [entry async for entry in bus.read(task, thread)]


async def events_of(bus: Bus, task: TaskId, thread: ThreadId | None = None) -> list[Event]:
    """Read the events of a super-task; what is none fails the test."""
    entries = await entries_of(bus, task, thread)
    assert all(isinstance(entry, Recorded) for entry in entries)
    return [entry.event for entry in entries if isinstance(entry, Recorded)]


async def types_of(bus: Bus, task: TaskId) -> list[str]:
    """Return the types of the events of a super-task, in log order."""
    return [event.type for event in await events_of(bus, task)]


async def opened(user: Bus, *to: str, participants: Sequence[str] = ()) -> TaskId:
    """Open a super-task and return its id."""
    appended = await user.tasks.open("What is it?", to=to, participants=participants)
    return appended.event.task


async def written(backend: Backend) -> int:
    """Return how many events the log has taken, of all its partitions."""
    count = backend.log.partitions
    return sum([await backend.log.last_seq(n) - partition_start(n) for n in range(count)])


async def write_raw(backend: Backend, subject: str, body: bytes) -> int:
    """Write bytes to the log that no bus would write; return their sequence."""
    sent = await backend.log.append(
        subject,
        body,
        msg_id=new_event_id(),
        guard=None,
        headers={},
        timeout=timedelta(seconds=DEADLINE_S),
    )
    return (await sent).seq


def text(event: Event) -> str:
    """Return the text of an event."""
    parts: Parts = getattr(event.data, "parts", ())
    return text_of(parts)


async def forge(
    backend: Backend, task: TaskId, data: AnyData, *, cause: EventId | None = None
) -> None:
    """Put an event of a stranger into the log, past every bus."""
    event = make_event(
        data, task=task, thread=MAIN_THREAD, sender=AgentName("stranger"), cause=cause
    )
    await write_raw(backend, event.subject, encode_event(event))
