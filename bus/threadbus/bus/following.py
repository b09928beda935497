"""Following the log: history, then what is stored from now on, without a gap or a duplicate."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

from threadbus.bus._logging import log as _log
from threadbus.bus.errors import ReadTimeoutError
from threadbus.bus.ports import Backend, StoredMessage
from threadbus.schemas import (
    Recorded,
    Rejected,
    SchemaError,
    SubjectFilter,
    decode_recorded_event,
)

NO_LIMIT: Final = 1 << 60
_MAX_TAIL: Final = 10_000
_MAX_TAIL_BYTES: Final = 8 * 1024 * 1024
_FIRST_LOOK_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0

Entry: TypeAlias = Recorded | Rejected
"""What a reader gets: an event, or the report that some bytes are none."""

Wanted: TypeAlias = Callable[[StoredMessage], bool]
"""Says of a message of the log whether it matters; the others are not decoded."""

Look: TypeAlias = Callable[[], Awaitable[None]]


def decode_entry(message: StoredMessage) -> Entry:
    """Decode one message of the log; bytes that are no event become a report."""
    if message.relayed:
        reason = "relayed: the server's answer to a request, not published by its sender"
        return Rejected(message.seq, message.subject, reason, message.stored_at, message.body)
    if message.misplaced:
        reason = "misplaced: in a partition of the log that its super-task does not belong to"
        return Rejected(message.seq, message.subject, reason, message.stored_at, message.body)
    try:
        event = decode_recorded_event(message.subject, message.body)
    except SchemaError as error:
        return Rejected(message.seq, message.subject, str(error), message.stored_at, message.body)
    return Recorded(message.seq, event, message.stored_at, message.body)


class Follower(AsyncIterator[Entry]):
    """History, then the tail; read again whenever the tail may have missed something.

    A context and an iterator by itself, not a generator: a wait goes through it once for each
    message that it waits for, and a generator that is left half read is closed by a task.
    """

    def __init__(
        self,
        backend: Backend,
        filter_: SubjectFilter,
        after: int,
        decode: Callable[[StoredMessage], Entry],
        *,
        new: bool = False,
        wanted: Wanted | None = None,
        first_look: Look | None = None,
        partition: int | None = None,
    ) -> None:
        """Prepare to follow; nothing is asked for before the context is entered.

        Args:
            backend: whose log is followed.
            filter_: which subjects.
            after: only what is later than this sequence.
            decode: makes an entry of a message.
            new: nothing is there yet, so that only what comes from now on is awaited.
            wanted: says of a message whether it is to be given; all when absent.
            first_look: awaited once, when nothing has come for a moment; what it raises ends the
                following. For what would cost too much to look at where the answer comes at once.
            partition: of the log, where *filter_* may match any super-task.
        """
        self._backend = backend
        self._filter = filter_
        self._last = after
        self._decode = decode
        self._wanted = wanted
        self._partition = partition
        self._tailing = backend.log.tail(filter_, self._on_message, self._on_loss, partition)
        self._history: AsyncGenerator[list[StoredMessage]] | None = None
        self._batch: deque[StoredMessage] = deque()
        self._tail: deque[StoredMessage] = deque()
        self._tail_bytes = 0
        self._lost = not new
        self._first_look = first_look
        self._patience = _FIRST_LOOK_S
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tailing.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._history is not None:
                await self._history.aclose()
        finally:
            await self._tailing.__aexit__(kind, error, trace)

    def _on_message(self, message: StoredMessage) -> None:
        if not self._backend.log.tail_is_whole:
            self._lost = True
        elif self._wanted is not None and not self._wanted(message):
            # Whoever waits is not to be woken by it.
            return
        elif len(self._tail) >= _MAX_TAIL or self._tail_bytes > _MAX_TAIL_BYTES:
            # A slow reader: what is dropped here is read from the log when its turn comes.
            self._forget_tail()
            self._lost = True
        elif not self._lost:
            self._tail.append(message)
            self._tail_bytes += len(message.body)
        self._wake()

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_bytes = 0

    def _on_loss(self) -> None:
        self._lost = True
        self._wake()

    def _look_again(self) -> None:
        # Interest may take a moment to reach another server: look now and then.
        self._patience = _LOOK_EVERY_S
        self._on_loss()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __anext__(self) -> Entry:
        """Return the next entry; there is always one more.

        Cancellation: safe.
        """
        while True:
            is_wanted = self._wanted is None
            if self._batch:
                message = self._batch.popleft()
            elif self._history is not None:
                await self._read_on(self._history)
                continue
            elif self._lost:
                if self._first_look is not None and self._patience != _FIRST_LOOK_S:
                    look, self._first_look = self._first_look, None
                    await look()
                self._lost = False
                self._forget_tail()
                self._history = self._backend.log.read(
                    self._filter, self._last, NO_LIMIT, self._partition
                )
                continue
            elif self._tail:
                message = self._tail.popleft()
                self._tail_bytes -= len(message.body)
                is_wanted = True
            else:
                await self._wait()
                continue
            if message.seq > self._last:
                self._last = message.seq
                if is_wanted or (self._wanted is not None and self._wanted(message)):
                    return self._decode(message)

    async def _read_on(self, history: AsyncGenerator[list[StoredMessage]]) -> None:
        try:
            self._batch.extend(await anext(history))
        except StopAsyncIteration:
            self._history = None
        except asyncio.CancelledError:
            # It ended the generator, not the history: whoever asks again reads on from there.
            self._history = None
            self._lost = True
            raise
        except ReadTimeoutError as error:
            # Whoever follows has a deadline of their own, or none.
            _log.warning("the log does not answer, trying on", reason=error.reason)
            self._history = None
            self._lost = True

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(self._patience, self._look_again)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
