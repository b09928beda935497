"""What a bus holds of its backend: all of it while the bus is open, nothing afterwards."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from threadbus.bus.errors import ClosedError
from threadbus.bus.ports import (
    Backend,
    InboxPort,
    KeyValuePort,
    LivePort,
    LogPort,
    ObjectPort,
    ServerFacts,
    StorageFacts,
)


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
