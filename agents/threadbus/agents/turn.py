"""One turn: a mention is handled, what came of it is appended, and only then acknowledged.

The order matters. Results first, with ids derived from the mention; then the observation that the
turn ended; the acknowledgement last. Whatever dies in between, the mention comes again, finds what
stands in the log, and goes on from there: one answer, whatever happens.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import structlog

from threadbus.agents.agent import Agent
from threadbus.agents.errors import GiveUpError, ModelBudgetExceededError, TurnTimeoutError
from threadbus.agents.journal import Journal
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import Model
from threadbus.agents.thinking import Thinking
from threadbus.bus import (
    AppendError,
    Bus,
    BusError,
    Delivery,
    NotAParticipantError,
    ThreadClosedError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ErrorInfo,
    Event,
    EventData,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    InputGiven,
    MentionDeadLettered,
    MessagePosted,
    SchemaError,
    TaskOpened,
    TaskStatus,
    as_parts,
    shorten,
    text_of,
)

STARTED_AFTER_S: Final = 0.05
"""A handler that is still running after this is on record as started."""

_SURELY_NEW: Final = timedelta(seconds=60)
"""A younger mention cannot have been answered outside the deduplication window of the log."""

_MAX_NOTE_CHARS: Final = 60
_log: Any = structlog.get_logger("threadbus.agents")


class Turn:
    """The handling of one delivery."""

    def __init__(
        self,
        agent: Agent,
        bus: Bus,
        delivery: Delivery,
        model: Model | None,
        replica: str,
        on_started: Callable[[Turn], None],
    ) -> None:
        self._agent = agent
        self._bus = bus
        self.delivery = delivery
        """The mention, under its lease."""
        self._replica = replica
        self._on_started = on_started
        self._journal = Journal(bus, delivery.recorded, agent.name)
        self._thinking = Thinking(bus, delivery.event, model)
        self._attempt = 1
        self._mention: Mention | None = None
        self.received_at = time.time_ns()
        self.started_at = 0
        self.was_long = False
        """Whether the handler ran long enough to be on record as started."""

    @property
    def event(self) -> Event:
        """The event that is handled."""
        return self.delivery.event

    @property
    def note(self) -> str:
        """For people: what the agent is at, and what was last said of the progress."""
        data = self.event.data
        title = getattr(data, "title", "") or text_of(getattr(data, "parts", ()))
        progress = self._mention.progress_note if self._mention is not None else ""
        what = shorten(title.strip().split("\n", 1)[0], _MAX_NOTE_CHARS) or self.event.type
        return f"{what!r} in {self.event.thread}" + (f": {progress}" if progress else "")

    async def run(self) -> None:
        """Handle the mention until it is settled, and acknowledge it.

        Cancellation: the attempt is recorded as aborted and the mention goes back at once.
        """
        self.started_at = time.time_ns()
        age = timedelta(microseconds=(self.started_at - self.delivery.recorded.stored_at) / 1000)
        if self.delivery.redelivered or age > _SURELY_NEW:
            await self._journal.load()
            if self._journal.is_settled:
                await self.delivery.ack()
                return
            self._attempt = self._journal.attempts + 1
        try:
            await self._try_until_settled()
        except asyncio.CancelledError:
            await self._observe(
                HandlingFailed(
                    error=ErrorInfo("Aborted", "the agent stopped before the handler ended"),
                    attempt=self._attempt,
                    retry_in_ns=0,
                    replica=self._replica,
                )
            )
            await self.delivery.nak()
            raise
        await self.delivery.ack()

    async def _try_until_settled(self) -> None:
        limits = self._agent.limits
        while True:
            if self._attempt > limits.max_attempts:
                info = ErrorInfo("TooManyAttempts", f"{self._attempt - 1} attempts ended badly")
                await self._give_up(info)
                return
            error = await self._attempt_once()
            if error is None:
                return
            last = isinstance(error, GiveUpError) or self._attempt >= limits.max_attempts
            info = ErrorInfo.of(error)
            if self._is_over(error):
                await self._fail(info, None)
                return
            if isinstance(error, ModelBudgetExceededError):
                await self._fail(info, None)
                await self._end_task(info)
                return
            pause = None if last else self._pause()
            await self._fail(info, pause)
            if pause is None:
                await self._give_up(info)
                return
            await asyncio.sleep(pause.total_seconds())
            self._attempt += 1
            self._journal.restart()

    def _is_over(self, error: Exception) -> bool:
        """Whether nobody can be answered any more: the thread has ended, or the agent is out."""
        if isinstance(error, ThreadClosedError):
            return error.task == self.event.task and error.thread in {
                MAIN_THREAD,
                self.event.thread,
            }
        return isinstance(error, NotAParticipantError) and self._agent.name in error.names

    async def _attempt_once(self) -> Exception | None:
        handler = self._agent.mention_handler
        if handler is None:
            return GiveUpError(f"agent {self._agent.name} has no handler for mentions")
        mention = Mention(
            self._bus, self.delivery.recorded, self._journal, self._thinking, self._attempt
        )
        self._mention = mention
        started = asyncio.get_running_loop().call_later(
            0 if self._attempt > 1 else STARTED_AFTER_S, self._on_started, self
        )
        timeout = self._agent.limits.turn_timeout.total_seconds()
        try:
            before = self._journal.find(self._journal.id_of("reply"))
            if before is None:
                clock = asyncio.timeout(timeout)
                try:
                    async with clock:
                        reply = await handler(mention)
                except TimeoutError as error:
                    return TurnTimeoutError(timeout) if clock.expired() else error
                await self._reply(reply)
            elif isinstance(before.event.data, AnswerSubmitted):
                # The answer stands; whether the task was closed with it is not known.
                await self._reply(before.event.data.parts)
            await self._observe(
                HandlingEnded(
                    received_at=self.received_at,
                    started_at=self.started_at,
                    ended_at=time.time_ns(),
                    attempt=self._attempt,
                    replica=self._replica,
                )
            )
        except Exception as error:
            if not isinstance(error, BusError | SchemaError | GiveUpError):
                _log.exception("a handler failed", agent=self._agent.name, event_id=self.event.id)
            return error
        finally:
            started.cancel()
        return None

    async def record_start(self) -> None:
        """Record that the handler is running; the runner calls this after its first moments."""
        self.was_long = True
        await self._observe(HandlingStarted(attempt=self._attempt, replica=self._replica))

    async def _reply(self, reply: Reply) -> None:
        if reply is None:
            return
        event, reply_id = self.event, self._journal.id_of("reply")
        if isinstance(reply, EventData):
            await self._bus.append(
                reply,  # type: ignore[arg-type]  # every subclass is in the union
                task=event.task,
                thread=event.thread,
                cause=event.id,
                event_id=reply_id,
            )
            return
        parts = as_parts(reply)
        match event.data:
            case TaskOpened() as data:
                await self._bus.tasks.submit_answer(
                    event.task,
                    parts,
                    cause=event.id,
                    event_id=reply_id,
                    mentions=() if data.awaited else (event.sender,),
                )
            case InputGiven():
                await self._bus.tasks.submit_answer(
                    event.task, parts, cause=event.id, event_id=reply_id
                )
            case AssignmentMade() as data:
                waits = data.mode is AssignmentMode.SYNC
                await self._bus.append(
                    AssignmentFinished(assignment=event.id, parts=parts),
                    task=event.task,
                    thread=event.thread,
                    mentions=() if waits else (event.sender,),
                    cause=event.id,
                    event_id=reply_id,
                )
            case MessagePosted(awaited=True):
                await self._post(parts, ())
            case _:
                back = () if event.sender == self._agent.name else (event.sender,)
                await self._post(parts, back)

    async def _post(self, parts: Any, mentions: tuple[str, ...]) -> None:
        await self._bus.send(
            self.event.task,
            self.event.thread,
            parts,
            mentions=mentions,
            cause=self.event.id,
            event_id=self._journal.id_of("reply"),
        )

    # failing

    def _pause(self) -> timedelta:
        limits = self._agent.limits
        doubled = limits.first_retry * float(2 ** min(self._attempt - 1, 30))
        return min(limits.longest_retry, doubled) * random.uniform(0.5, 1.0)  # noqa: S311

    async def _fail(self, error: ErrorInfo, pause: timedelta | None) -> None:
        await self._observe(
            HandlingFailed(
                error=error,
                attempt=self._attempt,
                retry_in_ns=None if pause is None else int(pause.total_seconds() * 1e9),
                replica=self._replica,
            )
        )

    async def _give_up(self, error: ErrorInfo) -> None:
        """Tell whoever asked; nobody waits for ever in silence."""
        event = self.event
        if isinstance(event.data, AssignmentMade):
            waits = event.data.mode is AssignmentMode.SYNC
            await self._attempt_append(
                AssignmentFailed(assignment=event.id, error=error),
                () if waits else (event.sender,),
                "failed",
            )
        await self._observe(
            MentionDeadLettered(error=error, attempts=min(self._attempt, 10_000)),
            mentions=() if event.sender == self._agent.name else (event.sender,),
            place="dead",
        )
        if isinstance(event.data, TaskOpened) and len(event.mentions) == 1:
            await self._end_task(error)

    async def _end_task(self, error: ErrorInfo) -> None:
        try:
            await self._bus.tasks.close(
                self.event.task,
                TaskStatus.FAILED,
                summary=f"{self._agent.name} gave up: {error.kind}: {error.message}",
                cause=self.event.id,
                event_id=self._journal.id_of("end"),
            )
        except (ThreadClosedError, NotAParticipantError):
            return

    async def _attempt_append(self, data: Any, mentions: tuple[str, ...], place: str) -> None:
        try:
            await self._bus.append(
                data,
                task=self.event.task,
                thread=self.event.thread,
                mentions=mentions,
                cause=self.event.id,
                event_id=self._journal.id_of(place),
            )
        except AppendError as refusal:
            _log.warning("could not say that the work failed", reason=str(refusal))

    async def _observe(
        self, data: Any, mentions: tuple[str, ...] = (), place: str | None = None
    ) -> None:
        await self._bus.observe(
            data,
            task=self.event.task,
            thread=self.event.thread,
            mentions=mentions,
            cause=self.event.id,
            event_id=None if place is None else self._journal.id_of(place),
        )
