"""Following the log: history, then what is stored from now on, without a gap or a duplicate."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final, TypeAlias

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
_FIRST_LOOK_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0

Entry: TypeAlias = Recorded | Rejected
"""What a reader gets: an event, or the report that some bytes are none."""


def decode_entry(message: StoredMessage) -> Entry:
    """Decode one message of the log; bytes that are no event become a report."""
    try:
        event = decode_recorded_event(message.subject, message.body)
    except SchemaError as error:
        return Rejected(message.seq, message.subject, str(error), message.stored_at, message.body)
    return Recorded(message.seq, event, message.stored_at, message.body)


class Follower:
    """History, then the tail; read again whenever the tail may have missed something."""

    def __init__(
        self,
        backend: Backend,
        filter_: SubjectFilter,
        after: int,
        decode: Callable[[StoredMessage], Entry],
    ) -> None:
        self.filter = filter_
        self._backend = backend
        self._decode = decode
        self._last = after
        self._tail: deque[StoredMessage] = deque()
        self._woken = asyncio.Event()
        self._lost = False

    def on_message(self, message: StoredMessage) -> None:
        if not self._backend.log.tail_is_whole:
            self._lost = True
        elif len(self._tail) >= _MAX_TAIL:
            # A slow reader: what is dropped here is read from the log when its turn comes.
            self._tail.clear()
            self._lost = True
        elif not self._lost:
            self._tail.append(message)
        self._woken.set()

    def on_loss(self) -> None:
        self._lost = True
        self._woken.set()

    def _has_news(self) -> bool:
        return self._lost or bool(self._tail)

    async def entries(self, *, read_first: bool) -> AsyncGenerator[Entry]:
        if read_first:
            self._lost = True
        patience = _FIRST_LOOK_S
        while True:
            if self._lost:
                self._lost = False
                self._tail.clear()
                async for batch in self._backend.log.read(self.filter, self._last, NO_LIMIT):
                    for message in batch:
                        self._last = message.seq
                        yield self._decode(message)
                continue
            while self._tail:
                message = self._tail.popleft()
                if message.seq > self._last:
                    self._last = message.seq
                    yield self._decode(message)
            self._woken.clear()
            if self._has_news():
                continue
            try:
                async with asyncio.timeout(patience):
                    await self._woken.wait()
            except TimeoutError:
                # Interest may take a moment to reach another server: look now and then.
                self._lost = True
                patience = _LOOK_EVERY_S
