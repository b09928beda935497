"""Waiting for mentions: what one agent has not acknowledged, at least once, without a state here.

The work queue of the bus is the cursor. A wait attaches to the agent's inbox, hands out what is
there, and gives it back when it ends; the next wait names by its cursor what the one before had
carried, and only that is acknowledged. So whatever happens to a result on its way (the host gives
up, the connection breaks, this process is killed), what it carried comes again, in this gateway
process or in another. Nothing is leased while a model thinks.

Of two waits of one agent in one process the newer one goes on and the older ends at once, empty,
with the status ``superseded``. In two processes both wait, and a mention comes to one of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

import msgspec

from threadbus.bus import Bus, Delivery, Inbox, ThreadState
from threadbus.gateways.mcp.closings import Closing, Closings
from threadbus.gateways.mcp.references import Place, make_cursor, read_cursor
from threadbus.schemas import Event

MAX_BATCH: Final = 32
"""Mentions that one result carries at most."""

MAX_BATCH_BYTES: Final = 200_000
"""Bytes of the events that one result carries, once it carries one."""

_GATHER_S: Final = 0.02
_LOOK_S: Final = 0.25
_REMEMBERED: Final = 10_000


class Woken(msgspec.Struct, frozen=True, kw_only=True):
    """What a wait ended with."""

    events: tuple[Event, ...] = ()
    closed: tuple[ThreadState, ...] = ()
    cursor: str = ""
    again: bool = False
    """Whether any of it was handed out before."""
    superseded: bool = False


class Mailbox:
    """The waits of one agent in this process."""

    def __init__(self, bus: Bus, closings: Closings) -> None:
        """Prepare; nothing is attached while nobody waits.

        Args:
            bus: speaks as the agent.
            closings: the threads whose end wakes it.
        """
        self._bus = bus
        self._closings = closings
        self._acknowledged: OrderedDict[int, None] = OrderedDict()
        self._handed: OrderedDict[int, None] = OrderedDict()
        self._waiting: asyncio.Future[None] | None = None
        self.waiters = 0
        """Waits that are running now."""

    @property
    def is_waiting(self) -> bool:
        """Whether a wait is running."""
        return self.waiters > 0

    def acknowledge(self, seqs: frozenset[int]) -> None:
        """Note what was received: it is taken out of the inbox when it comes by next time."""
        _remember(self._acknowledged, seqs)
        self._closings.acknowledge(seqs)

    async def wait(
        self,
        cursor: str,
        timeout_s: float,
        *,
        most: int = MAX_BATCH,
        thread: Place | None = None,
        sender: str = "",
    ) -> Woken:
        """Wait until the agent is mentioned, or a thread that it is in is closed.

        Args:
            cursor: that of the result before; what that carried is acknowledged.
            timeout_s: seconds at most.
            most: mentions at most, up to 32.
            thread: only mentions in this thread, and its end; others stay for later.
            sender: only mentions by this agent; others stay for later.

        Raises:
            InvalidCursorError: no result had this cursor.
            BusError: the inbox cannot be reached.

        Cancellation: safe; nothing is acknowledged but what the cursor names.
        """
        self.acknowledge(read_cursor(self._bus.name, cursor))
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = mine
        self.waiters += 1
        try:
            if thread is not None:
                await self._closings.look(thread)
            async with self._bus.inbox(room=MAX_BATCH) as inbox:
                return await self._gather(
                    inbox, mine, timeout_s, min(most, MAX_BATCH), thread, sender
                )
        finally:
            self.waiters -= 1
            if self._waiting is mine:
                self._waiting = None

    async def _gather(
        self,
        inbox: Inbox,
        superseded: asyncio.Future[None],
        timeout_s: float,
        most: int,
        thread: Place | None,
        sender: str,
    ) -> Woken:
        # Also a wait of no time looks once: the server needs a moment to answer.
        deadline = asyncio.get_running_loop().time() + max(timeout_s, _LOOK_S)
        found: list[Delivery] = []
        room = MAX_BATCH_BYTES
        while len(found) < most and room > 0:
            closed = self._closings.unseen(thread)
            ready = bool(found or closed)
            left = _GATHER_S if ready else deadline - asyncio.get_running_loop().time()
            ended = self._closings.changed
            delivery = await _first(inbox, left, superseded, *(() if ready else (ended,)))
            if delivery is None:
                if superseded.done() and not found:
                    return Woken(superseded=True)
                if ready or not ended.done():
                    break
                continue
            if _is_for_later(delivery.event, thread, sender):
                continue
            if delivery.seq in self._acknowledged or delivery.event.sender == self._bus.name:
                await delivery.ack()
                continue
            found.append(delivery)
            room -= len(delivery.recorded.body)
        return self._woken(found, self._closings.unseen(thread))

    def _woken(self, found: list[Delivery], closed: list[Closing]) -> Woken:
        found.sort(key=lambda delivery: delivery.seq)
        seqs = [delivery.seq for delivery in found]
        again = any(seq in self._handed for seq in seqs)
        _remember(self._handed, frozenset(seqs))
        for delivery in found:
            self._closings.soon(delivery.event.task)
        return Woken(
            events=tuple(delivery.event for delivery in found),
            closed=tuple(closing.state for closing in closed),
            cursor=make_cursor(self._bus.name, [*seqs, *(closing.seq for closing in closed)]),
            again=again,
        )


async def _first(inbox: Inbox, timeout_s: float, *others: asyncio.Future[None]) -> Delivery | None:
    """Return the next mention; None where one of *others* is done first, or the time is up."""
    if timeout_s <= 0 and any(other.done() for other in others):
        return None
    task = asyncio.ensure_future(inbox.next())
    either: set[asyncio.Future[Any]] = {task, *others}
    try:
        await asyncio.wait(either, timeout=max(0.0, timeout_s), return_when=asyncio.FIRST_COMPLETED)
        # One that has arrived counts, whatever else has happened.
        return task.result() if task.done() else None
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def _is_for_later(event: Event, thread: Place | None, sender: str) -> bool:
    """Whether a mention is not what is waited for; it is given back when the wait ends."""
    if thread is not None and (event.task, event.thread) != thread:
        return True
    return bool(sender) and event.sender != sender


def _remember(known: OrderedDict[int, None], seqs: frozenset[int]) -> None:
    for seq in seqs:
        known[seq] = None
        known.move_to_end(seq)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
