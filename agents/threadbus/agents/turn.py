"""One turn: a mention is handled, what came of it is appended, and only then acknowledged.

The order matters. Results first, with ids derived from the mention; then the observation that the
turn ended; the acknowledgement last. Whatever dies in between, the mention comes again, finds what
stands in the log, and goes on from there: one answer, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Final

from threadbus.agents.agent import MentionHandler
from threadbus.agents.context import in_turn
from threadbus.agents.errors import (
    AgentError,
    BadReplyError,
    GiveUpError,
    ModelBudgetExceededError,
    ModelRefusedError,
    NoModelError,
    TaskDeadlineError,
)
from threadbus.agents.giving_up import GivingUp, is_over, task_end
from threadbus.agents.handling import Attempt, guarded, report
from threadbus.agents.heartbeat import title_of
from threadbus.agents.journal import ABORTED, Journal
from threadbus.agents.mention import Mention
from threadbus.agents.replying import Replies
from threadbus.agents.thinking import Thinking
from threadbus.agents.throttling import ThrottledError
from threadbus.agents.workplace import Workplace
from threadbus.bus import BusError, Delivery, SteadyLog
from threadbus.schemas import (
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
)

_FINAL: Final = (GiveUpError, BadReplyError, NoModelError, ModelRefusedError)
"""Errors that would come again at the next attempt."""

_SURELY_NEW_NS: Final = 60 * 1_000_000_000
"""A younger mention cannot have been answered outside the deduplication window of the log."""

_AT_ONCE: Final = timedelta(0)
_MAX_PROGRESS_CHARS: Final = 200
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_log: Final = SteadyLog("threadbus.agents")


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
        self._begun: Attempt[Any] | None = None
        self._what = ""
        self.received_at = time.time_ns()
        self.started_at = 0
        self.was_long = False
        """Whether the handler ran long enough to be on record as started."""
        self.is_settled = False
        stored_at = delivery.recorded.stored_at
        is_old = self.received_at - stored_at > _SURELY_NEW_NS
        self._is_suspect = delivery.redelivered or stored_at < place.since or is_old

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
        self._what = self._what or title_of(self.event)
        said = self._mention.progress_note if self._mention is not None else ""
        progress = f": {clean_text(said, _MAX_PROGRESS_CHARS)}" if said else ""
        return f"{self._what} in {self.event.thread}{progress}"

    # leases: several when the mention came again while it was being handled
    def adopt(self, delivery: Delivery) -> None:
        """Take up the same mention, delivered again because a lease or the server was lost."""
        self._deliveries.append(delivery)

    async def extend(self) -> None:
        """Extend the leases."""
        for delivery in self._deliveries:
            await delivery.in_progress()

    async def give_back(self, delay: timedelta = _AT_ONCE) -> None:
        """Let the mention come again."""
        for delivery in self._deliveries:
            await delivery.nak(delay)

    async def _acknowledge(self) -> None:
        self.is_settled = True
        for delivery in self._deliveries:
            await delivery.ack()

    async def run(self, rest: Callable[[float], Awaitable[bool]]) -> None:
        """Handle the mention until it is settled, and acknowledge it.

        Args:
            rest: waits without taking up room; False when the agent stops.

        Cancellation: the attempt is recorded as aborted and the mention goes back at once.
        """
        with in_turn(self.event, self._place.agent.name):
            await self._run(rest)

    def begin(self, ended: Callable[[bool], None]) -> bool:
        """Begin in a task of its own that nobody watches, where nothing must be looked up before.

        Args:
            ended: called when that task ends, with whether the mention is settled. Where it is not,
                and where it takes long, :meth:`run` goes on from there.

        Returns:
            Whether it was begun.
        """
        if self._is_suspect or self._place.shared:
            return False
        with contextlib.suppress(AgentError):
            # What is raised here will be raised again where it can be judged.
            self._begun = self._prepare()()
        if self._begun is None:
            return False
        self.started_at = time.time_ns()
        self._begun.start(partial(self._alone, ended))
        return True

    async def _alone(
        self, ended: Callable[[bool], None], attempt: Coroutine[Any, Any, None]
    ) -> None:
        is_settled = False
        try:
            with in_turn(self.event, self._place.agent.name):
                await attempt
            if self._begun is not None:
                await self._acknowledge()
                is_settled = True
        finally:
            ended(is_settled)

    async def abort(self) -> None:
        """End a turn that was begun and that nobody watches, since the agent stops.

        Cancellation: the mention comes again when its lease is over.
        """
        attempt = self._begun
        if attempt is None or self.is_settled:
            return
        await attempt.end(self._place.abandoned)
        if not self.is_settled:
            await self._record_abort()

    async def _record_abort(self) -> None:
        await self._fail(ErrorInfo(ABORTED, "the agent stopped before the handler ended"), _AT_ONCE)
        await self.give_back()

    async def _run(self, rest: Callable[[float], Awaitable[bool]]) -> None:
        self.started_at = self.started_at or time.time_ns()
        wait = _FIRST_WAIT_S
        try:
            while True:
                try:
                    settled = await self._settle(rest)
                    break
                except (BusError, SchemaError, TimeoutError) as error:
                    # The log is out of reach. The thread waits: in order is better than soon.
                    why = ascii(error)
                    _log.warning("a turn cannot go on yet", event_id=self.event.id, reason=why)
                    self._is_suspect = True
                    settled = False
                    if not await rest(wait):
                        break
                    wait = min(2 * wait, _LONGEST_WAIT_S)
        except asyncio.CancelledError:
            await self._record_abort()
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
        begun, self._begun = self._begun, None
        try:
            if begun is not None:
                await self._watch(begun)
            elif await self._replies.complete():
                await self._record_end()
            else:
                await self._handle()
        except Exception as error:
            if not isinstance(error, BusError | SchemaError | GiveUpError | ThrottledError):
                agent = self._place.agent.name
                report("a handler failed", error, agent=agent, event_id=self.event.id)
            return error
        return None

    async def _handle(self) -> None:
        prepared = self._prepare()
        if self._is_suspect:
            started = HandlingStarted(attempt=self._attempt, replica=self._place.replica)
            # It may be what killed the process before: on record first, and surely.
            await self._append(started)
            self._on_record = self._attempt
        await self._watch(prepared())

    def _prepare(self) -> Callable[[], Attempt[Any]]:
        """Look whether the mention can be handled; return what makes the attempt.

        Raises:
            GiveUpError, TaskDeadlineError: it cannot.
        """
        event, agent, handler = self.event, self._place.agent, self._handler
        if isinstance(event.data, OpaqueData):
            raise GiveUpError(
                f"events of type {shorten(event.type)!r} are not known to agent {agent.name}; "
                "send a message, or run a version that knows them"
            )
        if handler is None:
            raise GiveUpError(f"agent {agent.name} has no handler for mentions")
        deadline = event.data.deadline_at if isinstance(event.data, TaskOpened) else None
        if deadline is not None and time.time_ns() > deadline:
            raise TaskDeadlineError(event.task)

        def make() -> Attempt[Any]:
            mention = self._mention = Mention(
                self._bus, self._recorded, self._journal.begin(), self._thinking, self._attempt
            )
            name = f"threadbus.agent[{agent.name}].handler"
            return Attempt(self._answer(handler, mention), self._conclude, name)

        return make

    async def _answer(self, handler: MentionHandler, mention: Mention) -> Any:
        if self._attempt == 1:
            await self._place.intake.check(self._recorded)
        return await guarded(handler, mention)

    async def _watch(self, attempt: Attempt[Any]) -> None:
        try:
            await attempt.watch(
                timeout_s=self._timeout_s,
                on_long=self._record_start,
                until=lambda: task_end(self._bus, self.event),
                abandoned=self._place.abandoned,
            )
        finally:
            self._journal.end()

    async def _conclude(self, reply: Any) -> None:
        """Append what the handler returned, and that the turn ended."""
        self._journal.end()
        await self._journal.refresh()
        await self._replies.append(reply)
        await self._record_end()

    async def _record_end(self) -> None:
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

    async def _record_start(self) -> None:
        if self._on_record != self._attempt:
            self._on_record = self._attempt
            await self._observe(HandlingStarted(attempt=self._attempt, replica=self._place.replica))
        self.was_long = True
        self._place.on_long()

    # failing

    async def _judge(self, error: Exception) -> timedelta | None:
        """Record a failure; return how long to wait, or None where that was the last attempt."""
        info = ErrorInfo.of(error)
        if isinstance(error, ThrottledError):
            await self._giving_up.throttled(error, info)
            return None
        if is_over(error, self.event, self._place.agent.name):
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
        pause = self._place.pause(self._attempt)
        await self._fail(info, pause)
        return pause

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
        await self._giving_up.end_what_rests(error)

    async def _observe(self, data: AnyData) -> None:
        event = self.event
        await self._bus.observe(data, task=event.task, thread=event.thread, cause=event.id)

    async def _append(self, data: AnyData) -> None:
        event = self.event
        await self._bus.append(data, task=event.task, thread=event.thread, cause=event.id)
