"""The log in a list: guard, ids that count once, reading in batches, tails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from threadbus.bus._logging import log as _log
from threadbus.bus.errors import PayloadTooLargeError
from threadbus.bus.ports import (
    Guard,
    GuardFailedError,
    Haste,
    LossHandler,
    MessageHandler,
    Position,
    StoredMessage,
)
from threadbus.bus.testing.clock import Clock

DEDUP_WINDOW: Final = timedelta(seconds=120)
_BATCH: Final = 1000


def matches(pattern: str, subject: str) -> bool:
    """Whether *subject* is one that the NATS wildcard *pattern* stands for."""
    tokens = subject.split(".")
    wanted = pattern.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return len(tokens) > index
        if index >= len(tokens) or want not in {"*", tokens[index]}:
            return False
    return len(wanted) == len(tokens)


def call(handler: Callable[..., None], *arguments: object) -> None:
    """Call a handler; what it raises is logged and reaches nobody else, as with a server."""
    try:
        handler(*arguments)
    except Exception:
        _log.exception("a message handler failed")


@dataclass
class _Task:
    """What is indexed by the second token of the subject."""

    messages: list[StoredMessage] = field(default_factory=list[StoredMessage])
    last: dict[str, int] = field(default_factory=dict[str, int])
    """The last sequence of each subject."""


@dataclass
class _Fault:
    pattern: str
    error: Exception | None
    """What the append ends with; None: it is stored and its acknowledgement is lost."""
    left: int


class LogStore:
    """The log that every connection to one twin shares."""

    def __init__(self, clock: Clock, on_stored: Callable[[StoredMessage], None]) -> None:
        self._clock = clock
        self._on_stored = on_stored
        self._messages: list[StoredMessage] = []
        self._tasks: dict[str, _Task] = {}
        self._ids: dict[str, int] = {}
        self._last_id = ""
        self._tails: dict[object, tuple[str, MessageHandler]] = {}
        self._faults: list[_Fault] = []

    def add_fault(self, pattern: str, error: Exception | None, times: int) -> None:
        """Let the next *times* appends on *pattern* go wrong."""
        self._faults.append(_Fault(pattern, error, times))

    def send(self, subject: str, body: bytes, msg_id: str, guard: Guard | None) -> Position:
        """Take what a client sends; sent again at once where the acknowledgement is lost.

        Raises:
            GuardFailedError: the guard does not hold.
            Exception: whatever the test asked for.
        """
        fault = self._next_fault(subject)
        if fault is None:
            return self.store(subject, body, msg_id, guard)
        if fault.error is not None:
            raise fault.error
        self.store(subject, body, msg_id, guard)
        return self.store(subject, body, msg_id, guard)

    def _next_fault(self, subject: str) -> _Fault | None:
        for fault in self._faults:
            if matches(fault.pattern, subject):
                fault.left -= 1
                if fault.left <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    def store(self, subject: str, body: bytes, msg_id: str, guard: Guard | None) -> Position:
        """Store one message, as the server does: the id is looked at before the guard."""
        known = self._ids.get(msg_id)
        if known is not None:
            return Position(known, duplicate=True)
        if guard is not None:
            last = self._last_seq(guard.subject)
            if last != guard.last_seq:
                raise GuardFailedError(last)
            if guard.behind and guard.behind != self._last_id:
                raise GuardFailedError(0)
        seq = len(self._messages) + 1
        message = StoredMessage(seq, subject, body, self._clock.now())
        self._messages.append(message)
        task = self._tasks.setdefault(_task_of(subject), _Task())
        task.messages.append(message)
        task.last[subject] = seq
        self._ids[msg_id] = seq
        self._last_id = msg_id
        self._clock.after(DEDUP_WINDOW, lambda: self._forget(msg_id))
        self._on_stored(message)
        for pattern, handler in list(self._tails.values()):
            if matches(pattern, subject):
                call(handler, message)
        return Position(seq, duplicate=False)

    def _forget(self, msg_id: str) -> None:
        self._ids.pop(msg_id, None)

    def _last_seq(self, pattern: str) -> int:
        task = self._tasks.get(_task_of(pattern), _Task())
        return max((seq for on, seq in task.last.items() if matches(pattern, on)), default=0)

    @property
    def last_seq(self) -> int:
        """The last sequence of all."""
        return len(self._messages)

    def batch(self, pattern: str, after: int, limit: int) -> list[StoredMessage]:
        """Return up to *limit* messages that match, later than *after*."""
        token = _task_of(pattern)
        if token in {"*", ">"}:
            candidates = self._messages
        else:
            candidates = self._tasks.get(token, _Task()).messages
        found: list[StoredMessage] = []
        for message in candidates:
            if message.seq > after and matches(pattern, message.subject):
                found.append(message)
                if len(found) == limit:
                    break
        return found

    def last_messages(self, pattern: str) -> list[StoredMessage]:
        """Return the last message of each subject that matches, oldest first."""
        last = {message.subject: message for message in self.batch(pattern, 0, self.last_seq)}
        return sorted(last.values(), key=lambda message: message.seq)

    @asynccontextmanager
    async def tail(self, pattern: str, handler: MessageHandler) -> AsyncGenerator[None]:
        """Call *handler* with each matching message as it is stored."""
        key = object()
        self._tails[key] = (pattern, handler)
        try:
            yield
        finally:
            del self._tails[key]


def _task_of(subject: str) -> str:
    return f"{subject}..".split(".", 2)[1]


class MemoryLog:
    """The log as a backend has it."""

    def __init__(self, store: LogStore, max_payload: int) -> None:
        self._store = store
        self.max_payload = max_payload
        self.tail_is_whole = True
        self.can_chain = True
        self.partitions = 1

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
        """Send a message and return a future of where it landed (see :class:`LogPort`)."""
        size = _wire_size(body, msg_id, guard, headers)
        if size > self.max_payload:
            raise PayloadTooLargeError(size, self.max_payload)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Position] = loop.create_future()
        # Answered a turn of the loop later, so that appending in a loop lets others run.
        try:
            position = self._store.send(subject, body, msg_id, guard)
        except Exception as error:
            loop.call_soon(_refuse, future, error)
        else:
            loop.call_soon(_acknowledge, future, position)
        return future

    async def read(
        self, subject: str, after: int, limit: int, partition: int | None = None
    ) -> AsyncGenerator[list[StoredMessage]]:
        """Read up to *limit* messages that match, later than *after*, in batches."""
        while limit > 0:
            await asyncio.sleep(0)
            batch = self._store.batch(subject, after, min(_BATCH, limit))
            if not batch:
                return
            limit -= len(batch)
            after = batch[-1].seq
            yield batch

    async def last_seq(self, partition: int = 0) -> int:
        """Return the last sequence of the log."""
        return self._store.last_seq

    async def last_per_subject(self, subject: str, limit: int) -> list[StoredMessage]:
        """Return the last message of each subject that matches, oldest first."""
        return self._store.last_messages(subject)[:limit]

    @asynccontextmanager
    async def tail(
        self,
        subject: str,
        handler: MessageHandler,
        on_loss: LossHandler,
        partition: int | None = None,
    ) -> AsyncGenerator[None]:
        """Call *handler* with each matching message once it is stored."""
        async with self._store.tail(subject, handler):
            yield


def _wire_size(body: bytes, msg_id: str, guard: Guard | None, headers: Mapping[str, str]) -> int:
    """Return what the message would have on the wire, so that a limit means the same here."""
    block = {"Nats-Msg-Id": msg_id, **headers}
    if guard is not None:
        block["Nats-Expected-Last-Subject-Sequence"] = str(guard.last_seq)
        block["Nats-Expected-Last-Subject-Sequence-Subject"] = guard.subject
        if guard.behind:
            block["Nats-Expected-Last-Msg-Id"] = guard.behind
    return len(body) + 12 + sum(len(key) + len(value) + 4 for key, value in block.items())


def _acknowledge(future: asyncio.Future[Position], position: Position) -> None:
    if not future.done():
        future.set_result(position)


def _refuse(future: asyncio.Future[Position], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # Whoever sent and forgot is not to be warned of by the loop.
        future.exception()
