"""What is said goes out through here: in order, and no faster than its sender may.

Each sender has a bucket of tokens: an event takes one, they come back at the rate of its limit,
and as many as the burst are kept for later. Who has none waits for them, in the order of the
calls; where the wait would be longer than an append may take, it is refused at once. Either is
put on record in the super-task, no more than once a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable
from typing import Final

from threadbus.bus.limit_errors import RateLimitedError
from threadbus.bus.limits import AppliedLimits, LimitBook
from threadbus.bus.ports import Backend, Guard, Haste, Position
from threadbus.bus.settings import BusSettings
from threadbus.schemas import (
    AgentName,
    AgentThrottled,
    Event,
    TaskId,
    TaskOpened,
    ThrottleAction,
    encode_event,
    make_event,
)

_MOST_KEPT: Final = 1024
_RECORD_EVERY_S: Final = 60.0


class SenderRate:
    """The bucket of one sender."""

    def __init__(self, name: AgentName, book: LimitBook, longest_s: float) -> None:
        self._name = name
        self._book = book
        self._longest_s = longest_s
        self._at = time.monotonic()
        self._tokens = float(book.known(name).burst.value)
        self._order = asyncio.Lock()
        self.waiting = 0
        """How many wait for a token."""

    def take(self) -> bool:
        """Take a token, if there is one and nobody waits for one."""
        limits = self._book.recent(self._name)
        if limits is None or self.waiting:
            return False
        if self._tokens >= 1:
            # They are filled up when there is none: every event would pay for the clock.
            self._tokens -= 1
            return True
        return self._spend(limits)

    def _spend(self, limits: AppliedLimits) -> bool:
        if limits.events_per_second.value == 0:
            return True
        self._fill(limits)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, limits: AppliedLimits) -> None:
        now = time.monotonic()
        tokens = self._tokens + (now - self._at) * limits.events_per_second.value
        self._tokens = min(float(max(1, limits.burst.value)), tokens)
        self._at = now

    async def wait(self) -> bool:
        """Take a token when it is this call's turn; return whether the limit held it back.

        Raises:
            RateLimitedError: that would take longer than an append may.

        Cancellation: no token is taken.
        """
        self._check()
        self.waiting += 1
        held_back = False
        try:
            async with self._order:
                limits = await self._book.look(self._name)
                while not self._spend(limits):
                    held_back = True
                    rate = limits.events_per_second.value
                    await asyncio.sleep(max(0.0, 1 - self._tokens) / max(1, rate) + 0.0005)
                    limits = await self._book.look(self._name)
        finally:
            self.waiting -= 1
        return held_back

    def _check(self) -> None:
        limits = self._book.known(self._name)
        rate = limits.events_per_second
        if rate.value == 0:
            return
        self._fill(limits)
        wait_s = (self.waiting + 1 - self._tokens) / rate.value
        if wait_s > self._longest_s:
            raise RateLimitedError(
                self._name,
                rate.value,
                limits.burst.value,
                wait_s,
                self._longest_s,
                rate.set_by,
            )


class Outgoing:
    """Sends events to the log, for everybody who speaks over one connection."""

    def __init__(self, backend: Backend, settings: BusSettings, book: LimitBook) -> None:
        self._backend = backend
        self._timeout = settings.append_timeout
        self._book = book
        self._rates: OrderedDict[AgentName, SenderRate] = OrderedDict()
        self._recorded: OrderedDict[tuple[AgentName, TaskId], float] = OrderedDict()

    def send(
        self,
        event: Event,
        guard: Guard | None,
        body: bytes | None = None,
        *,
        haste: Haste = Haste.AT_ONCE,
        msg_id: str = "",
    ) -> Awaitable[asyncio.Future[Position]]:
        """Send an event; awaited, it gives a future of where it landed.

        Args:
            event: what to send.
            guard: on which condition it is stored.
            body: the event encoded, where it is already.
            haste: how soon it is to be written.
            msg_id: where it is not the id of the event.

        Raises:
            RateLimitedError: when awaited: the sender says too much.
        """
        rate = self._rates.get(event.sender) or self._rate(event.sender)
        sending = self._backend.log.append(
            event.subject,
            encode_event(event) if body is None else body,
            msg_id=msg_id or event.id,
            guard=guard,
            headers={"traceparent": f"00-{event.task}-{event.id[16:]}-01"},
            timeout=self._timeout,
            haste=haste,
        )
        return sending if rate.take() else self._later(rate, event, sending)

    def _rate(self, name: AgentName) -> SenderRate:
        rate = SenderRate(name, self._book, self._timeout.total_seconds())
        self._rates[name] = rate
        if len(self._rates) > _MOST_KEPT:
            # One that waits has its own hold on what it waits for.
            self._rates.popitem(last=False)
        return rate

    async def _later(
        self, rate: SenderRate, event: Event, sending: Awaitable[asyncio.Future[Position]]
    ) -> asyncio.Future[Position]:
        try:
            held_back = await rate.wait()
        except BaseException as error:
            if asyncio.iscoroutine(sending):
                # It is never begun; the loop would warn of that.
                sending.close()
            if isinstance(error, RateLimitedError):
                await self._record(event, rate.waiting)
            raise
        if held_back:
            await self._record(event, rate.waiting)
        return await sending

    async def _record(self, event: Event, waiting: int) -> None:
        """Put it into the super-task that the sender is held back there, now and then."""
        key, now = (event.sender, event.task), time.monotonic()
        if isinstance(event.data, TaskOpened) or self._recorded.get(key, 0.0) > now:
            return
        self._recorded[key] = now + _RECORD_EVERY_S
        if len(self._recorded) > _MOST_KEPT:
            self._recorded.popitem(last=False)
        rule = self._book.known(event.sender).events_per_second
        note = make_event(
            AgentThrottled(
                agent=event.sender,
                action=ThrottleAction.HELD_BACK,
                limit=rule.limit.value,
                allowed=rule.value,
                seen=rule.value + waiting,
                set_by=rule.set_by,
                set_at=rule.set_at,
                reason=rule.reason,
            ),
            task=event.task,
            thread=event.thread,
            sender=event.sender,
            cause=event.cause,
        )
        future = await self._backend.log.append(
            note.subject,
            encode_event(note),
            msg_id=note.id,
            guard=None,
            headers={"traceparent": f"00-{note.task}-{note.id[16:]}-01"},
            timeout=self._timeout,
        )
        # Whoever looks at the log sees it; what is lost of it comes again in a minute.
        future.add_done_callback(_look_at)


def _look_at(future: asyncio.Future[Position]) -> None:
    """Take the error, or the loop would report it as overlooked."""
    if not future.cancelled():
        future.exception()
