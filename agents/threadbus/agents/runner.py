"""An agent at work: registered, living, woken by its mentions, stopped in order.

One process runs one :class:`AgentRunner`; several processes of one *holder* are replicas that
share the inbox. A thread is worked on in order also across replicas: a mention waits until every
earlier one of this agent in the thread is settled in the log. No lock and no claim is needed,
since the log says it and a settled mention stays settled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import structlog

from threadbus.agents.agent import Agent
from threadbus.agents.errors import NotAHandlerError
from threadbus.agents.heartbeat import Heartbeat
from threadbus.agents.journal import Journal
from threadbus.agents.lanes import Lanes
from threadbus.agents.mention import Mention
from threadbus.agents.model import Model
from threadbus.agents.thinking import Thinking
from threadbus.agents.turn import Turn
from threadbus.bus import (
    AgentReplacedError,
    Bus,
    BusError,
    Delivery,
    Inbox,
    new_instance,
)
from threadbus.schemas import (
    EventClass,
    HandlingEnded,
    HandlingFailed,
    Lane,
    MentionDeadLettered,
    MentionReceived,
    MessagePosted,
    PresenceState,
    Recorded,
    TextPart,
    as_parts,
)

_QUICK_LIMIT: Final = 8
_LATER: Final = timedelta(milliseconds=200)
_log: Any = structlog.get_logger("threadbus.agents")


class AgentRunner:
    """Runs one agent over one bus until it is stopped, or its name is taken over."""

    def __init__(
        self,
        agent: Agent,
        bus: Bus,
        *,
        model: Model | None = None,
        holder: str = "",
        replicas: int = 1,
        takeover: bool = False,
    ) -> None:
        """Prepare to run; :meth:`run` does the I/O.

        Args:
            agent: what to run.
            bus: a bus that speaks under the agent's name.
            model: what its handlers think with.
            holder: the group of replicas that this process belongs to; this process when empty.
            replicas: how many processes the group has.
            takeover: replace whoever holds the name.

        Raises:
            NotAHandlerError: the agent has no handler.
        """
        if agent.mention_handler is None:
            raise NotAHandlerError(f"agent {agent.name}")
        self._agent = agent
        self._bus = bus
        self._model = model
        self._instance = new_instance()
        self._holder = holder or self._instance
        self._replicas = replicas
        self._takeover = takeover
        self._stop = asyncio.Event()
        self._card_changed = asyncio.Event()
        self._replaced_by = ""
        self._draining = False
        self._lanes: Lanes[Turn] | None = None
        self._held: dict[int, Delivery] = {}
        self._quick: set[asyncio.Task[None]] = set()
        self._heartbeat = Heartbeat(bus, agent.name, self._instance, self._holder, self._look)
        self.ready = asyncio.Event()
        """Set once the agent is registered, living and attached to its inbox."""

    def stop(self) -> None:
        """Stop in order: take nothing more, finish what runs until the deadline, go."""
        self._stop.set()

    async def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            AgentNameTakenError: somebody living holds the name.
            AgentReplacedError: somebody took the name over; what was running is finished.
            ConnectError, ReadError: the inbox cannot be reached.

        Cancellation: what runs is aborted and its mentions go back at once.
        """
        await self._bus.registry.register(
            self._agent.card,
            holder=self._holder,
            takeover=self._takeover,
            replicas=self._replicas,
        )
        async with (
            self._bus.registry.watching(self._agent.name, self._card_changed.set),
            self._beating(),
            self._bus.inbox(
                room=self._agent.limits.concurrency * 2, fresh=self._replicas == 1
            ) as inbox,
        ):
            await self._work(inbox)
        if self._replaced_by:
            raise AgentReplacedError(self._agent.name, self._replaced_by)

    @asynccontextmanager
    async def _beating(self) -> AsyncGenerator[None]:
        await self._heartbeat.once()
        beat = asyncio.create_task(
            self._heartbeat.run(), name=f"threadbus.agent[{self._agent.name}].heartbeat"
        )
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.wait({beat})
            if not self._replaced_by:
                with contextlib.suppress(BusError):
                    await self._heartbeat.leave()

    async def _work(self, inbox: Inbox) -> None:
        name = f"threadbus.agent[{self._agent.name}]"
        try:
            async with asyncio.TaskGroup() as tasks:
                lanes = Lanes[Turn](
                    tasks, self._agent.limits.concurrency, self._run_turn, f"{name}.turn"
                )
                self._lanes = lanes
                keeper = tasks.create_task(self._keep_leases(), name=f"{name}.leases")
                taker = tasks.create_task(self._take(inbox, tasks), name=f"{name}.take")
                watcher = tasks.create_task(self._watch_holder(), name=f"{name}.holder")
                self.ready.set()
                await self._stop.wait()
                taker.cancel()
                await self._drain(lanes)
                watcher.cancel()
                keeper.cancel()
        except* BusError as group:
            # The cause counts, not that it came out of a group of tasks.
            raise group.exceptions[0] from None

    async def _take(self, inbox: Inbox, tasks: asyncio.TaskGroup) -> None:
        while True:
            delivery = await inbox.next()
            event = delivery.event
            if event.event_class is EventClass.OBS:
                await self._hear(delivery)
                continue
            self._held[id(delivery)] = delivery
            if _is_quick(delivery) and len(self._quick) < _QUICK_LIMIT:
                task = tasks.create_task(
                    self._answer_quickly(delivery),
                    name=f"threadbus.agent[{self._agent.name}].quick",
                )
                self._quick.add(task)
                task.add_done_callback(self._quick.discard)
                continue
            turn = Turn(
                self._agent, self._bus, delivery, self._model, self._instance, self._started(tasks)
            )
            lanes = self._lanes_now()
            if not lanes.put((event.task, event.thread), turn):
                await self._receipt(delivery, lanes)

    def _lanes_now(self) -> Lanes[Turn]:
        if self._lanes is None:
            raise RuntimeError("the runner is not running")
        return self._lanes

    def _started(self, tasks: asyncio.TaskGroup) -> Any:
        def on_started(turn: Turn) -> None:
            tasks.create_task(turn.record_start(), name="threadbus.agent.started")
            self._heartbeat.changed()

        return on_started

    async def _run_turn(self, turn: Turn) -> None:
        delivery = turn.delivery
        try:
            if self._replicas > 1 and not await self._is_its_turn(delivery):
                await delivery.nak(_LATER)
                return
            await turn.run()
        finally:
            self._held.pop(id(delivery), None)
            if turn.was_long:
                self._heartbeat.changed()

    async def _is_its_turn(self, delivery: Delivery) -> bool:
        """Whether every earlier mention of this agent in the thread is settled in the log."""
        own = self._agent.name
        waiting: set[str] = set()
        event = delivery.event
        async for entry in self._bus.read(event.task, event.thread):
            if not isinstance(entry, Recorded):
                continue
            other = entry.event
            if other.sender == own and other.cause in waiting and _settles(entry):
                waiting.discard(other.cause)
            elif (
                own in other.mentions
                and other.event_class is not EventClass.OBS
                and entry.seq < delivery.seq
                and not (isinstance(other.data, MessagePosted) and other.data.lane is Lane.QUICK)
            ):
                waiting.add(other.id)
        return not waiting

    async def _receipt(self, delivery: Delivery, lanes: Lanes[Turn]) -> None:
        """Tell the sender at once that the agent is busy, and with what."""
        event = delivery.event
        await self._bus.observe(
            MentionReceived(queue_depth=max(0, lanes.depth - 1), busy_with=self._busy_with()),
            task=event.task,
            thread=event.thread,
            cause=event.id,
        )

    async def _hear(self, delivery: Delivery) -> None:
        """Take note of an observation; agents may ignore those, so that no error storm starts."""
        handler = self._agent.dead_letter_handler
        if handler is not None and isinstance(delivery.event.data, MentionDeadLettered):
            try:
                await handler(delivery.recorded)
            except Exception:
                _log.exception("a dead-letter handler failed", agent=self._agent.name)
        await delivery.ack()

    async def _answer_quickly(self, delivery: Delivery) -> None:
        handler = self._agent.quick_handler
        event = delivery.event
        journal = Journal(self._bus, delivery.recorded, self._agent.name)
        try:
            if handler is None:
                reply: Any = self._busy_with() or "idle"
            else:
                thinking = Thinking(self._bus, event, self._model)
                reply = await handler(
                    Mention(self._bus, delivery.recorded, journal, thinking, attempt=1)
                )
            if reply is not None:
                awaited = isinstance(event.data, MessagePosted) and event.data.awaited
                await self._bus.send(
                    event.task,
                    event.thread,
                    as_parts(reply if reply != "" else TextPart("idle")),
                    mentions=() if awaited else (event.sender,),
                    cause=event.id,
                    event_id=journal.id_of("reply"),
                )
        except Exception as error:
            _log.warning("a quick question was not answered", error=repr(error))
        finally:
            self._held.pop(id(delivery), None)
        await delivery.ack()

    async def _keep_leases(self) -> None:
        """Extend the lease of everything held, so that nobody else is given it."""
        interval = self._bus.settings.ack_wait.total_seconds() / 3
        while True:
            await asyncio.sleep(interval)
            for delivery in list(self._held.values()):
                await delivery.in_progress()

    def _look(self) -> tuple[PresenceState, str, int]:
        lanes = self._lanes
        depth = 0 if lanes is None else lanes.depth
        busy_with = self._busy_with()
        if self._draining:
            return PresenceState.DRAINING, busy_with, depth
        return (PresenceState.BUSY if busy_with else PresenceState.IDLE), busy_with, depth

    def _busy_with(self) -> str:
        running = self._lanes.running if self._lanes is not None else []
        notes = [turn.note for turn in running[:3]]
        more = len(running) - len(notes)
        return ", ".join(notes) + (f" and {more} more" if more > 0 else "")

    async def _watch_holder(self) -> None:
        """Stop when somebody else has taken the name."""
        while True:
            await self._card_changed.wait()
            self._card_changed.clear()
            try:
                record = await self._bus.registry.get(self._agent.name)
            except BusError as error:
                _log.warning("could not look at who holds the name", reason=str(error))
                continue
            if record is not None and record.holder != self._holder:
                self._replaced_by = record.holder
                self._stop.set()

    async def _drain(self, lanes: Lanes[Turn]) -> None:
        self._draining = True
        for turn in lanes.stop():
            self._held.pop(id(turn.delivery), None)
            await turn.delivery.nak()
        self._heartbeat.changed()
        at_work = lanes.tasks() | self._quick
        if not at_work:
            return
        deadline = self._bus.settings.drain_timeout.total_seconds()
        _, left = await asyncio.wait(at_work, timeout=deadline)
        if left:
            _log.warning("stopped before it was done", agent=self._agent.name, deadline_s=deadline)
        for task in left:
            task.cancel()


def _is_quick(delivery: Delivery) -> bool:
    data = delivery.event.data
    return isinstance(data, MessagePosted) and data.lane is Lane.QUICK


def _settles(entry: Recorded) -> bool:
    data = entry.event.data
    if isinstance(data, HandlingFailed):
        return data.retry_in_ns is None
    return isinstance(data, HandlingEnded | MentionDeadLettered)
