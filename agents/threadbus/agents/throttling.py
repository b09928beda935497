"""Mentions that are not answered, because their sender runs away or two agents go round in circles.

The limits are those of the sender (:attr:`threadbus.bus.Bus.limits`). They are kept here too,
since a client in another language may keep none.

- *mentions per minute*: more mentions by one sender in one super-task within a minute, by the
  server's clock. The first one too many is put on record and told to the sender; each gets a dead
  letter.
- *exchange*: messages by which two agents woke one another since anything else came of it: work,
  a control event, or a word of somebody else to one of them. In the main thread the super-task
  then fails.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import aclosing
from typing import Final

from threadbus.agents.errors import AgentError
from threadbus.bus import Bus, Limit, Rule
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AgentThrottled,
    Event,
    EventClass,
    MessagePosted,
    Recorded,
    TaskId,
    ThreadId,
    ThrottleAction,
    derive_event_id,
)

_MINUTE_NS: Final = 60 * 1_000_000_000
_MOST_KEPT: Final = 4096
_OPENER_TIMES: Final = 10
"""How much longer one may talk with whoever opened the super-task, mostly a person."""


class ThrottledError(AgentError):
    """A mention is not answered, because of a limit of its sender."""

    def __init__(self, sender: str, limit: str, allowed: int, seen: int, set_by: str) -> None:
        super().__init__(sender, limit, allowed, seen, set_by)
        self.sender = sender
        self.limit = limit
        self.allowed = allowed
        self.seen = seen
        self.set_by = set_by
        """Who set the limit; empty where it comes from the settings."""

    @property
    def is_first(self) -> bool:
        """Whether this is the mention with which the limit was passed."""
        return self.seen == self.allowed + 1

    def __str__(self) -> str:
        who = f"set by {self.set_by}" if self.set_by else "from the settings"
        return (
            f"{self.sender} has mentioned this agent {self.seen:,} times within a minute in this "
            f"super-task, and {self.allowed:,} are allowed ({self.limit}, {who}): wait a minute, "
            "ask for more at once, or have an operator raise it with "
            f"`bus limits set {self.sender} --mentions N`"
        )


class ExchangeTooLongError(ThrottledError):
    """Two agents send one another messages and nothing else comes of it."""

    @property
    def is_first(self) -> bool:
        """Each is told: the exchange is over."""
        return True

    def __str__(self) -> str:
        who = f"set by {self.set_by}" if self.set_by else "from the settings"
        return (
            f"{self.sender} and this agent have sent one another {self.seen:,} messages and "
            f"nothing else has come of it, and {self.allowed:,} are allowed ({self.limit}, {who}): "
            "let one of them give work, decide or close, or have an operator raise it with "
            f"`bus limits set {self.sender} --between N`"
        )


class _Minute:
    """Mentions by one sender in one super-task within the present minute."""

    __slots__ = ("count", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0


class Exchange:
    """The messages between two agents since anything else came of it."""

    def __init__(self, one: AgentName, other: AgentName) -> None:
        self._both = frozenset({one, other})
        self._woke = {one: 0, other: 0}

    @property
    def length(self) -> int:
        """Twice the messages with which the quieter of the two woke the other one."""
        return 2 * min(self._woke.values())

    def add(self, event: Event) -> None:
        """Take in the next event of the thread.

        Work and control events of theirs end what was before, and so does a word of somebody else
        to one of them.
        """
        if event.event_class is EventClass.OBS:
            return
        wakes = not self._both.isdisjoint(event.addressees)
        if event.event_class is EventClass.MSG and event.sender in self._both:
            self._woke[event.sender] += wakes
        elif wakes or event.sender in self._both:
            self._woke = dict.fromkeys(self._woke, 0)


class _Talk:
    """An exchange and how far it was read."""

    __slots__ = ("after", "exchange", "left")

    def __init__(self, exchange: Exchange, after: int, left: int) -> None:
        self.exchange = exchange
        self.after = after
        """The sequence up to which it was read."""
        self.left = left
        """Mentions until it is looked at again."""


class Intake:
    """Says of each mention whether one agent answers it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._minutes: OrderedDict[tuple[TaskId, AgentName], _Minute] = OrderedDict()
        self._talks: OrderedDict[tuple[TaskId, ThreadId, AgentName], _Talk] = OrderedDict()

    async def check(self, mention: Recorded) -> None:
        """Let a mention pass that is to be answered; called once for each.

        Raises:
            ThrottledError: there are too many of its sender; that is on record.
            ExchangeTooLongError: it goes round in circles; that is on record.
            BusError: the log is out of reach.

        Cancellation: the mention counts.
        """
        event = mention.event
        if event.sender == self._bus.name:
            return
        known = self._bus.limits
        limits = known.recent(event.sender) or await known.of(event.sender)
        error = self._count(mention, limits.mentions_per_minute)
        if error is None and self._is_due(mention, limits.exchange):
            error = await self._exchange(mention, limits.exchange)
            rule = limits.exchange
        else:
            rule = limits.mentions_per_minute
        if error is None:
            return
        if error.is_first or isinstance(error, ExchangeTooLongError):
            await self._record(mention, rule, error.seen)
        raise error

    def _count(self, mention: Recorded, rule: Rule) -> ThrottledError | None:
        event, at = mention.event, mention.stored_at
        if rule.value == 0:
            return None
        key = (event.task, event.sender)
        minute = self._minutes.get(key)
        if minute is None or not 0 <= at - minute.start < _MINUTE_NS:
            minute = self._minutes[key] = _Minute(at)
            if len(self._minutes) > _MOST_KEPT:
                self._minutes.popitem(last=False)
        self._minutes.move_to_end(key)
        minute.count += 1
        if minute.count <= rule.value:
            return None
        return ThrottledError(
            event.sender, Limit.MENTIONS_PER_MINUTE, rule.value, minute.count, rule.set_by
        )

    def _is_due(self, mention: Recorded, rule: Rule) -> bool:
        """Count a mention of an exchange; return whether the exchange is to be looked at."""
        event = mention.event
        if rule.value == 0 or not isinstance(event.data, MessagePosted):
            return False
        key = (event.task, event.thread, event.sender)
        talk = self._talks.get(key)
        if talk is None:
            exchange = Exchange(self._bus.name, event.sender)
            talk = self._talks[key] = _Talk(exchange, mention.seq - 1, max(1, rule.value // 2))
            if len(self._talks) > _MOST_KEPT:
                self._talks.popitem(last=False)
        self._talks.move_to_end(key)
        talk.left -= 1
        return talk.left <= 0

    async def _exchange(self, mention: Recorded, rule: Rule) -> ExchangeTooLongError | None:
        event = mention.event
        talk = self._talks[event.task, event.thread, event.sender]
        length = await self._length(talk, mention)
        allowed = rule.value
        if length > allowed and await self._with_opener(event):
            allowed *= _OPENER_TIMES
        # The sooner it can pass the limit the sooner it is looked at again.
        talk.left = max(1, (allowed - length) // 2)
        if length <= allowed:
            return None
        return ExchangeTooLongError(event.sender, Limit.EXCHANGE, allowed, length, rule.set_by)

    async def _length(self, talk: _Talk, mention: Recorded) -> int:
        """Return how long an exchange is; of the log only what came since the last look is read."""
        event = mention.event
        async with aclosing(self._bus.read(event.task, event.thread, talk.after)) as entries:
            async for entry in entries:
                if entry.seq > mention.seq:
                    break
                if isinstance(entry, Recorded):
                    talk.exchange.add(entry.event)
        talk.after = max(talk.after, mention.seq)
        return talk.exchange.length

    async def _with_opener(self, event: Event) -> bool:
        main = await self._bus.threads.state(event.task, MAIN_THREAD)
        return main.creator in {event.sender, self._bus.name}

    async def _record(self, mention: Recorded, rule: Rule, seen: int) -> None:
        event = mention.event
        loops = rule.limit is Limit.EXCHANGE
        await self._bus.observe(
            AgentThrottled(
                agent=event.sender,
                action=ThrottleAction.UNANSWERED,
                limit=rule.limit.value,
                allowed=rule.value,
                seen=seen,
                set_by=rule.set_by,
                set_at=rule.set_at,
                until=None if loops else mention.stored_at + _MINUTE_NS,
                reason=rule.reason,
            ),
            task=event.task,
            thread=event.thread,
            mentions=(event.sender,),
            cause=event.id,
            event_id=derive_event_id(event.id, self._bus.name, "throttled"),
        )
