"""Key-value buckets, objects and live messages in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from threadbus.bus.ports import DataHandler, GuardFailedError, KeyEntry
from threadbus.bus.store_errors import (
    ArtifactTooLargeError,
)
from threadbus.bus.testing.clock import Clock, Timer
from threadbus.bus.testing.log import call, matches


class MemoryBucket:
    """One key-value bucket; times to live run by the twin's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, KeyEntry] = {}
        self._timers: dict[str, Timer] = {}
        self._watches: dict[object, tuple[str, Callable[[], None]]] = {}
        self._revision = 0

    async def get(self, key: str) -> KeyEntry | None:
        """Return the value of *key*."""
        return self._entries.get(key)

    async def put(
        self, key: str, value: bytes, *, revision: int | None = None, ttl: timedelta | None = None
    ) -> int:
        """Set *key* and return its revision (see :class:`KeyValuePort`)."""
        current = self._entries.get(key)
        has = 0 if current is None else current.revision
        if revision is not None and revision != has:
            raise GuardFailedError(has)
        self._revision += 1
        self._drop(key)
        self._entries[key] = KeyEntry(key, value, self._revision)
        if ttl is not None:
            # As the server counts: whole seconds, at least one.
            whole = timedelta(seconds=max(1, round(ttl.total_seconds())))
            self._timers[key] = self._clock.after(whole, lambda: self._expire(key))
        self._tell(key)
        return self._revision

    async def delete(self, key: str) -> None:
        """Take *key* away."""
        self._expire(key)

    async def entries(self, prefix: str = "") -> Sequence[KeyEntry]:
        """Return every key that starts with *prefix*."""
        return [entry for key, entry in self._entries.items() if key.startswith(prefix)]

    @asynccontextmanager
    async def watch(self, key: str, handler: Callable[[], None]) -> AsyncGenerator[None]:
        """Call *handler* when *key* may have changed."""
        watch = object()
        self._watches[watch] = (key, handler)
        try:
            yield
        finally:
            del self._watches[watch]

    def _expire(self, key: str) -> None:
        self._drop(key)
        self._tell(key)

    def _drop(self, key: str) -> None:
        self._entries.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _tell(self, key: str) -> None:
        for pattern, handler in list(self._watches.values()):
            if matches(pattern, key):
                call(handler)


class MemoryObjects:
    """The object store."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    async def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        return name in self._objects

    async def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        self._objects[name] = content

    async def get(self, name: str, limit: int) -> bytes | None:
        """Return an object of at most *limit* bytes, or None where there is none."""
        content = self._objects.get(name)
        if content is not None and len(content) > limit:
            raise ArtifactTooLargeError(len(content), limit)
        return content


class MemoryLive:
    """Messages that nobody stores."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[str, DataHandler]] = {}

    async def publish(self, subject: str, body: bytes) -> None:
        """Send to whoever listens now."""
        for pattern, handler in list(self._listeners.values()):
            if matches(pattern, subject):
                call(handler, subject, body)

    @asynccontextmanager
    async def subscribe(self, subject: str, handler: DataHandler) -> AsyncGenerator[None]:
        """Call *handler* with the subject and body of each message."""
        listener = object()
        self._listeners[listener] = (subject, handler)
        try:
            yield
        finally:
            del self._listeners[listener]
