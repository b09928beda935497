"""An agent at work: registered, living, woken by its mentions, stopped in order.

One process runs one :class:`AgentRunner`; several processes of one *holder* are replicas that
share the inbox. A thread is worked on in order also across replicas: a mention waits until every
earlier one of this agent in the thread is settled in the log. No lock and no claim is needed,
since the log says it and a settled mention stays settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

from threadbus.agents.agent import Agent
from threadbus.agents.errors import NotAHandlerError
from threadbus.agents.handling import report
from threadbus.agents.hearing import Hearing
from threadbus.agents.heartbeat import Heartbeat, wait_for_predecessor
from threadbus.agents.lanes import Lanes
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import Model
from threadbus.agents.order import is_its_turn
from threadbus.agents.pausing import Pauses
from threadbus.agents.turn import Turn
from threadbus.agents.workplace import Workplace
from threadbus.bus import (
    AgentReplacedError,
    Bus,
    BusError,
    Delivery,
    Inbox,
    SteadyLog,
    new_instance,
)
from threadbus.schemas import (
    Event,
    EventClass,
    EventId,
    Lane,
    MentionReceived,
    MessagePosted,
    PresenceState,
    SchemaError,
)

_QUICK_LIMIT: Final = 8
_QUICK_TIMEOUT: Final = timedelta(seconds=60)
_BESIDE_LIMIT: Final = 64
_HELD_MAX: Final = 1000
"""Mentions in the memory of a process that runs alone; more wait on the server."""

_HELD_PER_THREAD: Final = 4
"""For a replica, times its threads: the others want to have some too."""

_SETTLED_KEPT: Final = 4096
_AFTER_MISTAKE: Final = timedelta(seconds=10)
_SOONEST_S: Final = 0.2
_LATEST_S: Final = 2.0
_log: Final = SteadyLog("threadbus.agents")


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
        self._heartbeat = Heartbeat(bus, agent.name, self._instance, self._holder, self._look)
        self._place = Workplace(
            agent=agent,
            bus=bus,
            model=model,
            replica=self._instance,
            shared=replicas > 1,
            on_long=self._heartbeat.changed,
        )
        self._held: dict[EventId, Turn] = {}
        self._room = asyncio.Event()
        self._settled: OrderedDict[EventId, None] = OrderedDict()
        self._beside: set[asyncio.Task[None]] = set()
        self._hearing = Hearing(agent)
        self._pauses = Pauses(bus, self._instance)
        self.ready = asyncio.Event()
        """Set once the agent is registered, living and attached to its inbox."""

    @property
    def abandoned(self) -> frozenset[asyncio.Task[Any]]:
        """Handlers that still run although they were cancelled."""
        return frozenset(self._place.abandoned)

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
        record = await self._bus.registry.register(
            self._agent.card,
            holder=self._holder,
            takeover=self._takeover,
            replicas=self._replicas,
        )
        # Whoever took it over while this was under way must be seen too.
        self._card_changed.set()
        if self._takeover:
            await wait_for_predecessor(self._bus, self._agent.name, self._holder)
        async with (
            self._bus.registry.watching(self._agent.name, self._card_changed.set),
            self._beating(),
            self._bus.inbox(
                room=self._agent.limits.concurrency * 2,
                stream=record.inbox_stream,
                fresh=self._replicas == 1,
            ) as inbox,
        ):
            self._place.since = time.time_ns()
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
            with contextlib.suppress(BusError, TimeoutError):
                await self._heartbeat.leave()

    async def _work(self, inbox: Inbox) -> None:
        name = f"threadbus.agent[{self._agent.name}]"
        try:
            async with asyncio.TaskGroup() as tasks:
                lanes = Lanes[Turn](
                    tasks,
                    self._agent.limits.concurrency,
                    self._run_in_lane,
                    f"{name}.turn",
                    begin=self._begin_turn,
                )
                self._lanes = lanes
                keeper = tasks.create_task(self._keep_leases(), name=f"{name}.leases")
                taker = tasks.create_task(self._take(inbox, tasks, lanes), name=f"{name}.take")
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
        finally:
            left, self._lanes = self._lanes, None
            if left is not None:
                await asyncio.gather(*[self._abort(turn) for turn in left.give_up()])

    async def _abort(self, turn: Turn) -> None:
        try:
            await turn.abort()
        except (BusError, TimeoutError) as error:
            _log.warning("a turn was not recorded as aborted", reason=str(error))

    async def _take(self, inbox: Inbox, tasks: asyncio.TaskGroup, lanes: Lanes[Turn]) -> None:
        limit = _HELD_MAX
        if self._place.shared:
            limit = self._agent.limits.concurrency * _HELD_PER_THREAD
        while True:
            while len(self._held) >= limit:
                self._room.clear()
                await self._room.wait()
            delivery = await inbox.next()
            event = delivery.event
            held = self._held.get(event.id)
            if event.event_class is EventClass.OBS:
                while len(self._beside) >= _BESIDE_LIMIT:
                    await asyncio.wait(self._beside, return_when=asyncio.FIRST_COMPLETED)
                self._spawn(tasks, self._hearing.take(delivery), "dead-letter")
            elif self._pauses.take(delivery, tasks):
                continue
            elif held is not None:
                held.adopt(delivery)
            elif event.id in self._settled:
                await delivery.ack()
            else:
                await self._begin(delivery, tasks, lanes)

    async def _begin(
        self, delivery: Delivery, tasks: asyncio.TaskGroup, lanes: Lanes[Turn]
    ) -> None:
        event, limits = delivery.event, self._agent.limits
        quick = isinstance(event.data, MessagePosted) and event.data.lane is Lane.QUICK
        turn = Turn(
            self._place,
            delivery,
            self._quick_handler if quick else self._agent.mention_handler,
            max_attempts=1 if quick else limits.max_attempts,
            timeout=min(limits.turn_timeout, _QUICK_TIMEOUT) if quick else limits.turn_timeout,
        )
        self._held[event.id] = turn
        if quick and sum(held.is_quick for held in self._held.values()) <= _QUICK_LIMIT:
            self._spawn(tasks, self._run_turn(turn, _no_rest), "quick")
        elif not await lanes.put((event.task, event.thread), turn):
            await self._receipt(event, lanes)

    def _spawn(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None], what: str) -> None:
        task = tasks.create_task(work, name=f"threadbus.agent[{self._agent.name}].{what}")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _begin_turn(self, turn: Turn, ended: Callable[[bool], None]) -> bool:
        return turn.begin(partial(self._on_turn_end, turn, ended))

    def _on_turn_end(self, turn: Turn, ended: Callable[[bool], None], is_settled: bool) -> None:
        if is_settled:
            self._let_go(turn)
        ended(is_settled)

    async def _run_in_lane(self, turn: Turn) -> None:
        lanes = self._lanes
        if lanes is None:
            raise RuntimeError("the runner is not running")
        if (
            self._place.shared
            and not turn.is_quick
            and not await is_its_turn(self._bus, turn.event, turn.seq)
        ):
            # Neither is it the turn of those behind it, and each look costs a read of the thread.
            age_s = (time.time_ns() - turn.received_at) / 1e9
            pause = timedelta(seconds=min(_LATEST_S, max(_SOONEST_S, age_s / 10)))
            for later in [turn, *lanes.withdraw((turn.event.task, turn.event.thread))]:
                self._let_go(later)
                await later.give_back(pause)
            return
        await self._run_turn(turn, lanes.rest)

    async def _run_turn(self, turn: Turn, rest: Callable[[float], Awaitable[bool]]) -> None:
        try:
            await turn.run(rest)
        except Exception as error:
            # Never here but by a mistake of our own; the other threads are not to suffer from it.
            report("a turn broke", error, agent=self._agent.name, event_id=turn.event.id)
            await turn.give_back(_AFTER_MISTAKE)
        finally:
            self._let_go(turn)
            if turn.was_long:
                self._heartbeat.changed()

    def _let_go(self, turn: Turn) -> None:
        self._held.pop(turn.event.id, None)
        self._room.set()
        if turn.is_settled:
            self._settled[turn.event.id] = None
            if len(self._settled) > _SETTLED_KEPT:
                self._settled.popitem(last=False)

    async def _receipt(self, event: Event, lanes: Lanes[Turn]) -> None:
        """Tell the sender at once that the agent is busy, and with what."""
        try:
            await self._bus.observe(
                MentionReceived(queue_depth=max(0, lanes.depth - 1), busy_with=self._busy_with()),
                task=event.task,
                thread=event.thread,
                cause=event.id,
            )
        except (BusError, SchemaError) as error:
            _log.warning("no receipt for a mention", event_id=event.id, reason=str(error))

    async def _quick_handler(self, mention: Mention) -> Reply:
        handler = self._agent.quick_handler
        return self._busy_with() or "idle" if handler is None else await handler(mention)

    async def _keep_leases(self) -> None:
        """Extend the lease of everything held, so that nobody else is given it."""
        interval = self._bus.settings.ack_wait.total_seconds() / 3
        while True:
            await asyncio.sleep(interval)
            for turn in list(self._held.values()):
                await turn.extend()
            await self._hearing.extend()
            await self._pauses.extend()

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
            except (BusError, TimeoutError) as error:
                _log.warning("could not look at who holds the name", reason=str(error))
                await asyncio.sleep(_LATEST_S)
                self._card_changed.set()
                continue
            if record is not None and record.holder != self._holder:
                self._replaced_by = record.holder
                self._stop.set()

    async def _drain(self, lanes: Lanes[Turn]) -> None:
        self._draining = True
        self._pauses.stop()
        for turn in lanes.stop():
            self._let_go(turn)
            await turn.give_back()
        self._heartbeat.changed()
        at_work = lanes.tasks() | self._beside
        if not at_work:
            return
        deadline = self._bus.settings.drain_timeout.total_seconds()
        _, left = await asyncio.wait(at_work, timeout=deadline)
        if left:
            _log.warning("stopped before it was done", agent=self._agent.name, deadline_s=deadline)
        for task in left:
            task.cancel()


async def _no_rest(_seconds: float) -> bool:
    """Answer a quick question now or not at all: it is given back instead of waiting."""
    return False
