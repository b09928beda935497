"""A guard beside the server: who says far more than its limit is named, whatever its client does.

It hears each message of the log once it is stored, counts them by the sender that the server let
publish there, and gives each as much as its limits allow, several times over: whoever keeps to
them with a client of ours is never named. What is done about a runaway is up to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from threadbus.bus.bus import Bus
from threadbus.bus.errors import BusError
from threadbus.bus.limits import AppliedLimits, Rule
from threadbus.bus.ports import StoredMessage
from threadbus.schemas import (
    AgentName,
    AgentThrottled,
    InvalidSubjectError,
    TaskId,
    ThrottleAction,
    parse_event_subject,
)

DEFAULT_TIMES: Final = 2.0
_TICK_S: Final = 0.25
_MOST_SENDERS: Final = 4096
_MOST_TASKS: Final = 64
_TOLD_TASKS: Final = 8


class Runaway(NamedTuple):
    """A sender that said far more than it may."""

    sender: AgentName
    events: int
    """Within the last moment."""
    seconds: float
    rule: Rule
    """The limit that it passed."""
    tasks: tuple[TaskId, ...]
    """Where it said most, the most first."""


RunawayHandler: TypeAlias = Callable[[Runaway], Awaitable[None]]


class _Sender:
    """What one sender said since the last look, and how much it may still say."""

    def __init__(self) -> None:
        self.events = 0
        self.tasks: Counter[TaskId] = Counter()
        self.left: float | None = None
        self.looked_at = 0.0


class RunawayGuard:
    """Names senders that say far more than their limits allow."""

    def __init__(
        self, bus: Bus, on_runaway: RunawayHandler, *, times: float = DEFAULT_TIMES
    ) -> None:
        """Prepare to watch; :meth:`run` does the I/O.

        Args:
            bus: a bus that may read everything.
            on_runaway: called with each runaway, once at a time.
            times: how many times its limit a sender may say; more for several processes of one.

        Raises:
            ValueError: *times* is below 1.
        """
        if not times >= 1:
            raise ValueError(f"times is {times:g}; it must be at least 1")
        self._bus = bus
        self._on_runaway = on_runaway
        self._times = times
        self._senders: OrderedDict[AgentName, _Sender] = OrderedDict()
        self.ready = asyncio.Event()
        """Set once it watches."""

    async def run(self) -> None:
        """Watch until it is cancelled.

        Raises:
            BusError: the log or the limits cannot be read, or what the handler raises.

        Cancellation: safe.
        """
        # In a flood the server may be too busy to say what is allowed.
        await self._bus.limits.learn()
        async with self._bus.limits.hearing(self._hear):
            self.ready.set()
            while True:
                await asyncio.sleep(_TICK_S)
                for name in [name for name, one in self._senders.items() if one.events]:
                    await self._look(name, self._senders[name])

    def _hear(self, message: StoredMessage) -> None:
        if message.relayed:
            # Whoever had the server put it there is not the one that its subject names.
            return
        try:
            subject = parse_event_subject(message.subject)
        except InvalidSubjectError:
            return
        sender = self._senders.get(subject.sender)
        if sender is None:
            sender = self._senders[subject.sender] = _Sender()
            if len(self._senders) > _MOST_SENDERS:
                self._senders.popitem(last=False)
        sender.events += 1
        if subject.task in sender.tasks or len(sender.tasks) < _MOST_TASKS:
            sender.tasks[subject.task] += 1

    async def _look(self, name: AgentName, sender: _Sender) -> None:
        limits = await self._bus.limits.of(name)
        now, said = time.monotonic(), sender.events
        rate = limits.events_per_second.value * self._times
        most = max(limits.burst.value, 1) * self._times
        before = most if sender.left is None else sender.left
        passed = now - sender.looked_at if sender.looked_at else _TICK_S
        sender.left = min(most, before + passed * rate) - said
        sender.looked_at, sender.events = now, 0
        tasks = tuple([task for task, _ in sender.tasks.most_common()])
        sender.tasks.clear()
        if not limits.events_per_second.value or sender.left >= 0:
            return
        # It begins anew: named again only for as much again.
        sender.left = most
        rule = _passed(limits, said, passed)
        await self._on_runaway(Runaway(name, said, passed, rule, tasks))
        # What came meanwhile was said before anything was done about it.
        sender.events = 0
        sender.tasks.clear()


def _passed(limits: AppliedLimits, said: int, seconds: float) -> Rule:
    fast = said > limits.events_per_second.value * seconds
    return limits.events_per_second if fast else limits.burst


async def record_runaway(
    bus: Bus, runaway: Runaway, *, until: int | None = None, reason: str = ""
) -> None:
    """Put it into the super-tasks where a runaway said most that the server takes no more of it.

    Args:
        bus: whose name says it.
        runaway: who.
        until: nanoseconds since the epoch; None where it ends by hand.
        reason: why, in words.
    """
    rule = runaway.rule
    for task in runaway.tasks[:_TOLD_TASKS]:
        with contextlib.suppress(BusError):
            await bus.append(
                AgentThrottled(
                    agent=runaway.sender,
                    action=ThrottleAction.MUTED,
                    limit=rule.limit.value,
                    allowed=rule.value,
                    seen=runaway.events,
                    set_by=rule.set_by,
                    set_at=rule.set_at,
                    until=until,
                    reason=reason or rule.reason,
                ),
                task=task,
            )
