"""One agent's place at a gateway: registered and living for as long as its host is there.

A host is there while a request of it is running, and for a while after the last one: the newer
protocol has no connection whose end could tell. The desks of one agent in several gateway
processes hold its name together; whoever else holds it keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec

from threadbus.agents import Heartbeat
from threadbus.bus import Bus, BusError, SteadyLog, new_instance
from threadbus.gateways.errors import TooManyCallsError
from threadbus.gateways.mcp.closings import Closings
from threadbus.gateways.mcp.mailbox import Mailbox
from threadbus.schemas import AgentCard, AgentName, PresenceState, ThreadbusError

HOLDER: Final = "mcp-gateway"
"""Every gateway process holds names under this; so they share them."""

LINGER_S: Final = 120.0
"""Seconds after its last request for which a host still counts as being there."""

MAX_CALLS: Final = 64
"""Requests of one agent that may run at once in one process."""

_log: Final = SteadyLog("threadbus.gateways.mcp")


class Desk:
    """What a gateway keeps for one agent while its host is there."""

    def __init__(
        self,
        bus: Bus,
        card: AgentCard,
        on_threads: Callable[[], None],
        linger_s: float = LINGER_S,
    ) -> None:
        """Prepare; nothing is registered before :meth:`run`.

        Args:
            bus: speaks under the agent's name.
            card: how it presents itself, where it has not done so before.
            on_threads: called when the agent's threads are others.
            linger_s: seconds for which it is kept without a request.
        """
        self.bus = bus
        self.name: AgentName = bus.name
        self._card = card
        self._linger_s = linger_s
        self._here = 0
        self._calls = 0
        self._last = time.monotonic()
        self._left = asyncio.Event()
        self._record_changed = asyncio.Event()
        self._doing = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the agent is registered; raises what kept it from being."""
        self.closings = Closings(bus, self._spawn, on_threads)
        self.mailbox = Mailbox(bus, self.closings)
        self.heartbeat = Heartbeat(bus, self.name, new_instance(), HOLDER, self._look)
        self.state: dict[str, Any] = {}
        """What other parts of the gateway keep for as long as the desk is there."""
        self.at_end = AsyncExitStack()
        """What other parts of the gateway have to do when the desk is left."""

    @property
    def calls(self) -> int:
        """Requests that are running now."""
        return self._calls

    def leave(self) -> None:
        """End the desk: the gateway stops."""
        self._left.set()

    @contextlib.contextmanager
    def busy(self, what: str = "", *, counted: bool = True) -> Generator[None]:
        """Count a request for as long as it runs.

        Args:
            what: which tool it calls, if any.
            counted: whether it counts towards what may run at once.

        Raises:
            TooManyCallsError: as many are running as may.
        """
        if counted and self._calls >= MAX_CALLS:
            raise TooManyCallsError(self.name, MAX_CALLS)
        self._here += 1
        self._calls += counted
        if what:
            self._doing = what
            self.heartbeat.changed()
        try:
            yield
        finally:
            self._here -= 1
            self._calls -= counted
            self._last = time.monotonic()
            if what:
                self.heartbeat.changed()

    async def run(self, on_leaving: Callable[[], None]) -> None:
        """Register, and be living until the host has gone; only the record stays.

        Args:
            on_leaving: called when no further request may come.
        """
        try:
            await self._register()
            await self.heartbeat.once()
        except (ThreadbusError, TimeoutError) as error:
            self.started.set_exception(error)
            # Whoever waits for it hears of it; nobody may.
            self.started.exception()
            on_leaving()
            return
        self.started.set_result(None)
        _ = self._spawn(self.heartbeat.run(), f"threadbus.mcp.heartbeat[{self.name}]")
        try:
            async with self.bus.registry.watching(self.name, self._record_changed.set):
                # Whoever took it over before there was somebody to tell must be seen too.
                self._record_changed.set()
                _ = self._spawn(self._watch_holder(), f"threadbus.mcp.holder[{self.name}]")
                await self._until_gone()
        finally:
            on_leaving()
            await self._clean_up()

    async def _register(self) -> None:
        registry = self.bus.registry
        record = await registry.get(self.name)
        if record is not None and record.holder == HOLDER:
            known = msgspec.structs.replace(
                self._card,
                description=self._card.description or record.card.description,
                skills=self._card.skills or record.card.skills,
            )
            if known == record.card:
                return
            self._card = known
        await registry.register(self._card, holder=HOLDER)

    async def _watch_holder(self) -> None:
        """Leave once somebody else has taken the name over."""
        while True:
            await self._record_changed.wait()
            self._record_changed.clear()
            try:
                record = await self.bus.registry.get(self.name)
            except (BusError, TimeoutError) as error:
                _log.warning("could not look at who holds the name", reason=str(error))
                continue
            if record is not None and record.holder != HOLDER:
                _log.warning("the name was taken over", agent=self.name, by=record.holder)
                self._left.set()

    async def _until_gone(self) -> None:
        while not self._left.is_set():
            quiet = time.monotonic() - self._last
            if self._here == 0 and quiet >= self._linger_s:
                return
            left = self._linger_s if self._here else self._linger_s - quiet
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(left, 0.01), 5.0)):
                    await self._left.wait()

    async def _clean_up(self) -> None:
        try:
            await self.at_end.aclose()
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            try:
                async with asyncio.timeout(2):
                    await self.heartbeat.leave()
            except (BusError, TimeoutError) as error:
                _log.warning("could not say goodbye", agent=self.name, reason=str(error))

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _look(self) -> tuple[PresenceState, str, int]:
        if self.mailbox.is_waiting:
            return PresenceState.IDLE, "waiting for mentions", 0
        return PresenceState.BUSY, f"last call: {self._doing or 'connected'}", 0


class Desks:
    """The desks of one gateway process."""

    def __init__(
        self,
        bus: Bus,
        tasks: asyncio.TaskGroup,
        card_of: Callable[[AgentName], AgentCard],
        on_threads: Callable[[], None],
        linger_s: float = LINGER_S,
    ) -> None:
        """Prepare.

        Args:
            bus: the connection.
            tasks: where the desks run.
            card_of: how an agent presents itself.
            on_threads: called when the threads of an agent are others.
            linger_s: seconds for which a desk is kept without a request.
        """
        self._bus = bus
        self._tasks = tasks
        self._card_of = card_of
        self._on_threads = on_threads
        self._linger_s = linger_s
        self._desks: dict[AgentName, Desk] = {}

    def __len__(self) -> int:
        return len(self._desks)

    async def at(self, agent: AgentName) -> Desk:
        """Return the desk of an agent, once it is registered.

        Raises:
            AgentNameTakenError: somebody else holds the name.
            BusError: the registry does not answer.
        """
        desk = self._desks.get(agent)
        if desk is None:
            bus = self._bus.acting_as(agent)
            desk = Desk(bus, self._card_of(agent), self._on_threads, self._linger_s)
            self._desks[agent] = desk
            self._tasks.create_task(
                desk.run(lambda: self._forget(desk)), name=f"threadbus.mcp.desk[{agent}]"
            )
        await asyncio.shield(desk.started)
        return desk

    def found(self, agent: str) -> Desk | None:
        """Return the desk of an agent where it is there."""
        return self._desks.get(AgentName(agent))

    def leave(self) -> None:
        """End all of them."""
        for desk in self._desks.values():
            desk.leave()

    def _forget(self, desk: Desk) -> None:
        if self._desks.get(desk.name) is desk:
            del self._desks[desk.name]
