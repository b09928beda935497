"""Connecting, and what a bus holds of its backend: nothing any more once it was left."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from threadbus.bus._nats.backend import open_backend
from threadbus.bus.bus import Bus
from threadbus.bus.errors import ClosedError
from threadbus.bus.facts import ServerFacts, StorageFacts
from threadbus.bus.health import Health
from threadbus.bus.ports import (
    Backend,
    InboxPort,
    KeyValuePort,
    LivePort,
    LogPort,
    ObjectPort,
)
from threadbus.bus.settings import BusSettings
from threadbus.schemas import parse_agent_name


class Connection:
    """A backend that is gone once the bus was left; see :class:`threadbus.bus.ports.Backend`."""

    def __init__(self, backend: Backend) -> None:
        self._backend: Backend | None = backend

    def close(self) -> None:
        """Raise ClosedError at every use from now on."""
        self._backend = None

    def _open(self) -> Backend:
        if self._backend is None:
            raise ClosedError
        return self._backend

    @property
    def log(self) -> LogPort:
        """The log."""
        return self._open().log

    @property
    def inboxes(self) -> InboxPort:
        """The inboxes."""
        return self._open().inboxes

    @property
    def agents(self) -> KeyValuePort:
        """The registry."""
        return self._open().agents

    @property
    def presence(self) -> KeyValuePort:
        """Heartbeats."""
        return self._open().presence

    async def positions(self) -> KeyValuePort:
        """Where consumers of the whole log keep how far they got."""
        return await self._open().positions()

    @property
    def objects(self) -> ObjectPort:
        """The object store."""
        return self._open().objects

    @property
    def live(self) -> LivePort:
        """Messages that are never stored."""
        return self._open().live

    async def ensure(self) -> None:
        """Create what is missing, check what is there."""
        await self._open().ensure()

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        return await self._open().facts()

    async def storage(self) -> StorageFacts:
        """Return what is known of the streams; makes none."""
        return await self._open().storage()

    async def health(self, streams: Sequence[str]) -> Health:
        """Return what an operator wants to know of *streams* and the account; makes none."""
        return await self._open().health(streams)

    async def drop_mentions(self, agent: str, stream: str) -> int:
        """Take what waits for *agent* out of its inbox; return how many."""
        return await self._open().drop_mentions(agent, stream)

    async def drain(self, deadline: timedelta) -> None:
        """Wait for outstanding appends, at most until *deadline*."""
        await self._open().drain(deadline)


@contextmanager
def opened(backend: Backend) -> Generator[Connection]:
    """Give a connection that is closed when the context ends."""
    connection = Connection(backend)
    try:
        yield connection
    finally:
        connection.close()


@asynccontextmanager
async def connect(
    where: str | BusSettings | None = None, *, name: str | None = None, ensure: bool = True
) -> AsyncGenerator[Bus]:
    """Open a bus: ``async with connect("nats://127.0.0.1:4222", name="web") as bus``.

    Entering connects, checks the server, and makes the streams that are missing. Leaving normally
    waits for outstanding appends, at most ``drain_timeout``; leaving by an exception does not.

    Args:
        where: the URL, or all settings; ``BUS_…`` variables and the defaults when absent.
        name: who speaks; the one in the settings when absent.
        ensure: make the streams that are missing; without it this only looks.

    Raises:
        ConnectError: on entering; the subclass says what is wrong with the server.
        InvalidNameError: the name is outside the grammar.
        InvalidSettingError: a ``BUS_…`` variable has a value that it cannot take.
    """
    settings = where if isinstance(where, BusSettings) else BusSettings.from_env(url=where)
    speaker = parse_agent_name(settings.name if name is None else name)
    async with open_backend(settings, speaker) as backend:
        await (backend.ensure() if ensure else backend.look())
        with opened(backend) as connection:
            yield Bus(connection, settings, speaker)
            await backend.drain(settings.drain_timeout)
