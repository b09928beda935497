"""Inboxes in memory: leases, acknowledgements, delays and redelivery by the twin's clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from datetime import timedelta
from typing import Final

from threadbus.bus.errors import ClosedError
from threadbus.bus.facts import WaitingMention
from threadbus.bus.ports import (
    StoredMessage,
)
from threadbus.bus.testing.clock import Clock, Timer
from threadbus.schemas import MAX_MENTIONS

INBOX_STREAM: Final = "MENTIONS"
_BEFORE_MENTIONS: Final = 5
_ACK_WAIT: Final = timedelta(seconds=30)


class _Mention:
    """One event in one inbox, until it is acknowledged."""

    __slots__ = ("deliveries", "event", "stored_at", "timer")

    def __init__(self, event: StoredMessage) -> None:
        self.event = event
        self.stored_at = event.stored_at
        self.deliveries = 0
        self.timer: Timer | None = None
        """Its lease, or the delay that it waits out."""


class _Box:
    """The inbox of one agent. What comes again goes before what is new."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ack_wait = _ACK_WAIT
        self._new: deque[_Mention] = deque()
        self._again: deque[_Mention] = deque()
        self._mentions: dict[int, _Mention] = {}
        self.pulls: set[MemoryInboxPull] = set()

    def __len__(self) -> int:
        return len(self._mentions)

    def oldest(self) -> StoredMessage | None:
        """Return the event of the mention that has waited longest."""
        return next((mention.event for mention in self._mentions.values()), None)

    def put(self, event: StoredMessage) -> None:
        if event.seq not in self._mentions:
            mention = self._mentions[event.seq] = _Mention(event)
            self._new.append(mention)
            self._wake()

    def take(self) -> _Mention | None:
        queue = self._again or self._new
        if not queue:
            return None
        mention = queue.popleft()
        mention.deliveries += 1
        self._wait(mention, self.ack_wait)
        return mention

    def extend(self, mention: _Mention) -> None:
        if mention.timer is not None:
            self._wait(mention, self.ack_wait)

    def give_back(self, mention: _Mention, delay: timedelta) -> None:
        if mention.timer is None:
            return
        if delay > timedelta(0):
            self._wait(mention, delay)
        else:
            self._return(mention)

    def settle(self, mention: _Mention) -> None:
        _stop(mention)
        if self._mentions.pop(mention.event.seq, None) is None:
            return
        for queue in (self._new, self._again):
            if mention in queue:
                queue.remove(mention)

    def forget_deliveries(self) -> None:
        """Begin again, as a server does whose consumer was taken away."""
        self._again.clear()
        self._new.clear()
        for mention in self._mentions.values():
            _stop(mention)
            mention.deliveries = 0
            self._new.append(mention)
        self._wake()

    def empty(self) -> int:
        """Take every mention out; return how many there were."""
        dropped = list(self._mentions.values())
        for mention in dropped:
            self.settle(mention)
        return len(dropped)

    def _wait(self, mention: _Mention, delay: timedelta) -> None:
        _stop(mention)
        mention.timer = self._clock.after(delay, lambda: self._return(mention))

    def _return(self, mention: _Mention) -> None:
        _stop(mention)
        self._again.append(mention)
        self._wake()

    def _wake(self) -> None:
        for pull in self.pulls:
            pull.wake()


def _stop(mention: _Mention) -> None:
    if mention.timer is not None:
        mention.timer.cancel()
        mention.timer = None


class MemoryInboxMessage:
    """One mention under a lease."""

    __slots__ = ("_box", "_mention", "_pull", "_settled", "deliveries")

    def __init__(self, pull: MemoryInboxPull, box: _Box, mention: _Mention) -> None:
        self._pull = pull
        self._box = box
        self._mention = mention
        self._settled = False
        self.deliveries = mention.deliveries

    @property
    def relayed(self) -> bool:
        """Never: nothing here answers to a subject of the log."""
        return False

    @property
    def misplaced(self) -> bool:
        """Never: there is one log."""
        return False

    @property
    def subject(self) -> str:
        """The subject that the event was published on."""
        return self._mention.event.subject

    @property
    def body(self) -> bytes:
        """The event."""
        return self._mention.event.body

    @property
    def seq(self) -> int:
        """The event's sequence in the log."""
        return self._mention.event.seq

    @property
    def stored_at(self) -> int:
        """Nanoseconds since the epoch when it was put into the inbox."""
        return self._mention.stored_at

    async def ack(self) -> None:
        """Say that it was handled."""
        if self._settle():
            self._box.settle(self._mention)

    async def nak(self, delay: timedelta) -> None:
        """Give it back; it comes again after *delay*."""
        if self._settle():
            self._box.give_back(self._mention, delay)

    async def in_progress(self) -> None:
        """Extend the lease."""
        if not self._settled:
            self._box.extend(self._mention)

    def _settle(self) -> bool:
        first = not self._settled
        self._settled = True
        self._pull.held.discard(self)
        return first


class MemoryInboxPull:
    """One attached inbox."""

    def __init__(self, box: _Box) -> None:
        self._box = box
        self._arrived = asyncio.Event()
        self._closed = False
        self.held: set[MemoryInboxMessage] = set()

    def wake(self) -> None:
        """Look again whether there is a mention."""
        self._arrived.set()

    def close(self) -> list[MemoryInboxMessage]:
        """Stop; returns what was taken and not settled."""
        self._closed = True
        self.wake()
        return sorted(self.held, key=lambda message: message.seq)

    async def next(self, room: int) -> MemoryInboxMessage:
        """Return the next mention.

        Cancellation: safe; a mention is taken only when it is returned.
        """
        await asyncio.sleep(0)
        while True:
            if self._closed:
                raise ClosedError("the inbox")
            mention = self._box.take()
            if mention is not None:
                message = MemoryInboxMessage(self, self._box, mention)
                self.held.add(message)
                return message
            self._arrived.clear()
            await self._arrived.wait()


class MemoryInboxes:
    """Every inbox of a twin."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._boxes: dict[tuple[str, str], _Box] = {}
        self._attached: set[MemoryInboxPull] = set()
        self.streams = (INBOX_STREAM,)

    def of_one_connection(self) -> MemoryInboxes:
        """Return the same inboxes as one connection has them: it can be closed by itself."""
        own = copy(self)
        own._attached = set()
        return own

    def close(self) -> None:
        """End what is attached over this connection; whoever waits for a mention is told."""
        for pull in self._attached:
            pull.close()

    def stream_of(self, agent: str) -> str:
        """Return the stream that has the inbox of *agent*."""
        return INBOX_STREAM

    def _box(self, agent: str, stream: str) -> _Box:
        found = self._boxes.get((stream, agent))
        if found is None:
            found = self._boxes[stream, agent] = _Box(self._clock)
        return found

    def deliver(self, event: StoredMessage) -> None:
        """Put an event of the log into the inbox of each agent that its subject mentions."""
        mentions = event.subject.split(".")[_BEFORE_MENTIONS:]
        if len(mentions) <= MAX_MENTIONS:
            for agent in mentions:
                self._box(agent, INBOX_STREAM).put(event)

    @asynccontextmanager
    async def pull(
        self, agent: str, stream: str, ack_wait: timedelta, *, sole: bool = False
    ) -> AsyncGenerator[MemoryInboxPull]:
        """Attach to the inbox of *agent*; what is not settled at the end goes back at once."""
        box = self._box(agent, stream)
        box.ack_wait = ack_wait
        pull = MemoryInboxPull(box)
        box.pulls.add(pull)
        self._attached.add(pull)
        try:
            yield pull
        finally:
            self._attached.discard(pull)
            box.pulls.discard(pull)
            for message in pull.close():
                await message.nak(timedelta(0))

    async def remove(self, agent: str, stream: str) -> None:
        """Take the inbox away; mentions that wait in it are kept."""
        self._box(agent, stream).forget_deliveries()

    async def push(self, agent: str, stream: str, ack_wait: timedelta) -> None:
        """Let the mentions wait: nobody subscribes in memory, so they can only be pulled."""
        self._box(agent, stream).ack_wait = ack_wait

    async def pending(self, stream: str) -> Mapping[str, int]:
        """Return how many mentions wait for each agent."""
        return {
            agent: len(box)
            for (inbox_stream, agent), box in self._boxes.items()
            if inbox_stream == stream and len(box)
        }

    def drop(self, agent: str, stream: str) -> int:
        """Take what waits for *agent* out of its inbox; return how many."""
        return self._box(agent, stream).empty()

    async def oldest(self, agent: str, stream: str) -> WaitingMention | None:
        """Return the mention that has waited longest for *agent*."""
        box = self._boxes.get((stream, agent))
        event = None if box is None else box.oldest()
        if event is None:
            return None
        _, task, thread, event_class, sender = event.subject.split(".")[:5]
        subject = f"mention.{agent}.{task}.{thread}.{event_class}.{sender}"
        return WaitingMention(agent, subject, event.stored_at)
