"""One turn: a mention is handled, what came of it is appended, and only then acknowledged.

The order matters. Results first, with ids derived from the mention; then the observation that the
turn ended; the acknowledgement last. Whatever dies in between, the mention comes again, finds what
stands in the log, and goes on from there: one answer, whatever happens.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import structlog

from threadbus.agents.agent import Agent, MentionHandler
from threadbus.agents.context import in_turn
from threadbus.agents.errors import (
    BadReplyError,
    GiveUpError,
    ModelBudgetExceededError,
    ModelRefusedError,
    NoModelError,
    TaskDeadlineError,
    TaskEndedError,
)
from threadbus.agents.giving_up import GivingUp, task_end
from threadbus.agents.handling import attempt, guarded, report
from threadbus.agents.journal import ABORTED, Journal
from threadbus.agents.mention import Mention
from threadbus.agents.model import Model
from threadbus.agents.replying import Replies
from threadbus.agents.thinking import Thinking
from threadbus.bus import Bus, BusError, Delivery, NotAParticipantError, ThreadClosedError
from threadbus.schemas import (
    MAIN_THREAD,
    AnyData,
    ErrorInfo,
    Event,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    Lane,
    MessagePosted,
    OpaqueData,
    SchemaError,
    TaskOpened,
    clean_text,
    shorten,
    text_of,
)

_FINAL: Final = (GiveUpError, BadReplyError, NoModelError, ModelRefusedError)
"""Errors that would come again at the next attempt."""

_SURELY_NEW_NS: Final = 60 * 1_000_000_000
"""A younger mention cannot have been answered outside the deduplication window of the log."""

_MAX_NOTE_CHARS: Final = 60
_MAX_PROGRESS_CHARS: Final = 200
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_log: Any = structlog.get_logger("threadbus.agents")


@dataclass(kw_only=True)
class Workplace:
    """What all turns of one running agent have in common."""

    agent: Agent
    bus: Bus
    model: Model | None
    replica: str
    shared: bool
    """Whether other processes take mentions from the same inbox."""
    on_long: Callable[[Turn], None]
    """Called when a handler has run for more than a moment."""
    since: int = 0
    """When mentions began to be taken; what is older may have been begun by another process."""
    abandoned: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    """Handlers that did not end when they were cancelled."""


class Turn:
    """The handling of one mention."""

    def __init__(
        self,
        place: Workplace,
        delivery: Delivery,
        handler: MentionHandler | None,
        *,
        max_attempts: int,
        timeout: timedelta,
    ) -> None:
        self._place = place
        self._bus = place.bus
        self._handler = handler
        self._max_attempts = max_attempts
        self._timeout_s = timeout.total_seconds()
        self._deliveries = [delivery]
        self._recorded = delivery.recorded
        self._journal = Journal(self._bus, delivery.recorded, place.agent.name)
        self._thinking = Thinking(self._bus, delivery.event, place.model)
        self._giving_up = GivingUp(self._bus, delivery.event, self._journal)
        self._replies = Replies(self._bus, delivery.event, self._journal)
        self._attempt = 1
        self._on_record = 0
        self._mention: Mention | None = None
        self._what = ""
        self.received_at = time.time_ns()
        self.started_at = 0
        self.was_long = False
        """Whether the handler ran long enough to be on record as started."""
        self.is_settled = False
        """Whether the mention is acknowledged."""
        stored_at = delivery.recorded.stored_at
        self._is_suspect = (
            delivery.redelivered
            or stored_at < place.since
            or self.received_at - stored_at > _SURELY_NEW_NS
        )

    @property
    def event(self) -> Event:
        """The event that is handled."""
        return self._recorded.event

    @property
    def seq(self) -> int:
        """Its sequence in the log."""
        return self._recorded.seq

    @property
    def is_quick(self) -> bool:
        """Whether it is a quick question, which keeps no order and waits for nothing."""
        data = self.event.data
        return isinstance(data, MessagePosted) and data.lane is Lane.QUICK

    @property
    def note(self) -> str:
        """For people: what the agent is at, and what was last said of the progress."""
        if not self._what:
            data = self.event.data
            title = getattr(data, "title", "") or text_of(getattr(data, "parts", ()))
            line = title.strip()[:_MAX_PROGRESS_CHARS].split("\n", 1)[0]
            self._what = repr(clean_text(line, _MAX_NOTE_CHARS) or self.event.type)
        said = self._mention.progress_note if self._mention is not None else ""
        progress = f": {clean_text(said, _MAX_PROGRESS_CHARS)}" if said else ""
        return f"{self._what} in {self.event.thread}{progress}"

    # the leases: there are several when the mention came again while it was being handled

    def adopt(self, delivery: Delivery) -> None:
        """Take up the same mention, delivered again because a lease or the server was lost."""
        self._deliveries.append(delivery)

    async def extend(self) -> None:
        """Extend the lease."""
        for delivery in self._deliveries:
            await delivery.in_progress()

    async def give_back(self, delay: timedelta = timedelta(0)) -> None:
        """Let the mention come again."""
        for delivery in self._deliveries:
            await delivery.nak(delay)

    async def _acknowledge(self) -> None:
        self.is_settled = True
        for delivery in self._deliveries:
            await delivery.ack()

    # running

    async def run(self, rest: Callable[[float], Awaitable[bool]]) -> None:
        """Handle the mention until it is settled, and acknowledge it.

        Args:
            rest: waits without taking up room; False when the agent stops.

        Cancellation: the attempt is recorded as aborted and the mention goes back at once.
        """
        with in_turn(self.event, self._place.agent.name):
            await self._run(rest)

    async def _run(self, rest: Callable[[float], Awaitable[bool]]) -> None:
        self.started_at = time.time_ns()
        wait = _FIRST_WAIT_S
        try:
            while True:
                try:
                    settled = await self._settle(rest)
                    break
                except (BusError, SchemaError, TimeoutError) as error:
                    # The log is out of reach. The thread waits: in order is better than soon.
                    _log.warning(
                        "a turn cannot go on yet", event_id=self.event.id, reason=ascii(error)
                    )
                    self._is_suspect = True
                    settled = False
                    if not await rest(wait):
                        break
                    wait = min(2 * wait, _LONGEST_WAIT_S)
        except asyncio.CancelledError:
            reason = ErrorInfo(ABORTED, "the agent stopped before the handler ended")
            await self._fail(reason, timedelta(0))
            await self.give_back()
            raise
        finally:
            self._journal.end()
        await (self._acknowledge() if settled else self.give_back())

    async def _settle(self, rest: Callable[[float], Awaitable[bool]]) -> bool:
        """Try until it is settled; False where the agent stops before."""
        if self._is_suspect:
            await self._journal.load()
            if self._journal.is_settled:
                return True
            self._attempt = self._journal.attempts + 1
        while True:
            if self._attempt > self._max_attempts + self._journal.aborted:
                times = self._attempt - 1 - self._journal.aborted
                await self._give_up(ErrorInfo("TooManyAttempts", f"{times} attempts ended badly"))
                return True
            error = await self._attempt_once()
            if error is None:
                return True
            pause = await self._judge(error)
            if pause is None:
                return True
            if not await rest(pause.total_seconds()):
                return False
            self._attempt += 1
            # An append that was cut off may be in the log all the same.
            await self._journal.load()

    async def _attempt_once(self) -> Exception | None:
        try:
            if not await self._replies.complete():
                reply = await self._handle()
                await self._journal.refresh()
                await self._replies.append(reply)
            ended = HandlingEnded(
                received_at=self.received_at,
                started_at=self.started_at,
                ended_at=max(time.time_ns(), self.started_at),
                attempt=self._attempt,
                replica=self._place.replica,
            )
            if self._place.shared:
                # Replicas read it to know whose turn it is: not before it is in the log.
                await self._append(ended)
            else:
                await self._observe(ended)
        except Exception as error:
            if not isinstance(error, BusError | SchemaError | GiveUpError):
                name = self._place.agent.name
                report("a handler failed", error, agent=name, event_id=self.event.id)
            return error
        return None

    async def _handle(self) -> Any:
        event, agent = self.event, self._place.agent
        if isinstance(event.data, OpaqueData):
            raise GiveUpError(
                f"events of type {shorten(event.type)!r} are not known to agent {agent.name}; "
                "send a message, or run a version that knows them"
            )
        if self._handler is None:
            raise GiveUpError(f"agent {agent.name} has no handler for mentions")
        deadline = event.data.deadline_at if isinstance(event.data, TaskOpened) else None
        if deadline is not None and time.time_ns() > deadline:
            raise TaskDeadlineError(event.task)
        if self._is_suspect:
            # It may be what killed the process before: on record first, and surely.
            await self._append(HandlingStarted(attempt=self._attempt, replica=self._place.replica))
            self._on_record = self._attempt
        mention = self._mention = Mention(
            self._bus, self._recorded, self._journal.begin(), self._thinking, self._attempt
        )
        try:
            return await attempt(
                guarded(self._handler, mention),
                name=f"threadbus.agent[{agent.name}].handler",
                timeout_s=self._timeout_s,
                on_long=self._record_start,
                until=lambda: task_end(self._bus, event),
                abandoned=self._place.abandoned,
            )
        finally:
            self._journal.end()

    async def _record_start(self) -> None:
        if self._on_record != self._attempt:
            self._on_record = self._attempt
            await self._observe(HandlingStarted(attempt=self._attempt, replica=self._place.replica))
        self.was_long = True
        self._place.on_long(self)

    # failing

    async def _judge(self, error: Exception) -> timedelta | None:
        """Record a failure; return how long to wait, or None where that was the last attempt."""
        info = ErrorInfo.of(error)
        if self._is_over(error):
            await self._fail(info, None)
            return None
        if isinstance(error, ModelBudgetExceededError | TaskDeadlineError):
            await self._fail(info, None)
            if not await self._giving_up.end_task(info):
                await self._giving_up.tell(info, self._attempt)
            return None
        if isinstance(error, _FINAL) or self._attempt >= self._max_attempts + self._journal.aborted:
            await self._fail(info, None)
            await self._give_up(info)
            return None
        pause = self._pause()
        await self._fail(info, pause)
        return pause

    def _is_over(self, error: Exception) -> bool:
        """Whether nobody can be answered any more: the thread has ended, or the agent is out."""
        if isinstance(error, ThreadClosedError):
            return error.task == self.event.task and error.thread in {
                MAIN_THREAD,
                self.event.thread,
            }
        if isinstance(error, NotAParticipantError):
            return self._place.agent.name in error.names
        return isinstance(error, TaskEndedError)

    def _pause(self) -> timedelta:
        limits = self._place.agent.limits
        doubled = limits.first_retry * float(2 ** min(self._attempt - 1, 30))
        return min(limits.longest_retry, doubled) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    async def _fail(self, error: ErrorInfo, pause: timedelta | None) -> None:
        await self._observe(
            HandlingFailed(
                error=error,
                attempt=self._attempt,
                retry_in_ns=None if pause is None else int(pause.total_seconds() * 1e9),
                replica=self._place.replica,
            )
        )

    async def _give_up(self, error: ErrorInfo) -> None:
        await self._giving_up.tell(error, self._attempt)
        await self._giving_up.end_task_if_alone(error)

    async def _observe(self, data: AnyData) -> None:
        event = self.event
        await self._bus.observe(data, task=event.task, thread=event.thread, cause=event.id)

    async def _append(self, data: AnyData) -> None:
        event = self.event
        await self._bus.append(data, task=event.task, thread=event.thread, cause=event.id)
