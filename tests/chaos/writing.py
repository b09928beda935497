"""Writers: they open super-tasks and post into them, and note what they were told.

In a process of its own, to be killed: ``python -m tests.chaos.writing URL NAME JOURNAL SEED``.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from tests.chaos.history import Journal, Phase
from tests.chaos.waiting import pass_time
from threadbus.bus import (
    Appended,
    AppendError,
    Bus,
    BusError,
    BusSettings,
    ClosedError,
    InvalidTransitionError,
    NotAParticipantError,
    StorageFullError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    connect,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    EventId,
    MessagePosted,
    TaskId,
    TaskStatus,
    TextPart,
    new_event_id,
    new_task_id,
)

# The bus says of these that nothing was appended.
_REFUSALS: Final = (
    ThreadClosedError,
    NotAParticipantError,
    StorageFullError,
    TaskNotFoundError,
    ThreadNotFoundError,
    InvalidTransitionError,
    UnknownAgentError,
)
_MAX_POSTS: Final = 6
_REST_S: Final = 0.1
_LOOK_S: Final = 8.0
_TRIES: Final = 3

Attempt: TypeAlias = Callable[[], Awaitable[Appended]]


class Writer:
    """One writer with its journal.

    Args:
        bus: speaks under the writer's name.
        journal: where its history goes.
        chance: decides what it writes.
        team: who is asked, then who takes part.
    """

    def __init__(
        self, bus: Bus, journal: Journal, chance: random.Random, team: tuple[str, ...]
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._chance = chance
        self._team = team
        self.tasks: set[TaskId] = set()
        """Super-tasks that it opened, or may have."""

    async def register(self) -> None:
        """Register, for as long as it takes: a server may be away."""
        card = AgentCard(name=self._bus.name)
        while True:
            try:
                await self._bus.registry.register(card, holder="chaos", takeover=True)
            except (BusError, TimeoutError):
                await pass_time(_REST_S)
            else:
                return

    async def write(self, over: asyncio.Event, most: int) -> None:
        """Open super-tasks until *over*, at most *most*.

        Cancellation: what was under way is noted as unknown.
        """
        for number in range(most):
            if over.is_set():
                break
            await self._one_task(number, over)
            # A writer that never rests would measure throughput, not faults.
            await pass_time(_REST_S)

    async def _one_task(self, number: int, over: asyncio.Event) -> None:
        task, event = new_task_id(), new_event_id()
        self.tasks.add(task)

        async def open_it() -> Appended:
            return await self._bus.tasks.open(
                f"q{number} of {self._bus.name}",
                to=self._team[:1],
                participants=self._team[1:],
                task=task,
                event_id=event,
            )

        if not await self._noted(task, event, open_it):
            return
        posts = [self._post(task, text) for text in range(self._chance.randrange(1, _MAX_POSTS))]
        if self._chance.random() < 0.5:
            await asyncio.gather(*posts)
        else:
            for post in posts:
                await post
        if self._chance.random() < 0.5 and not over.is_set():
            try:
                await self._bus.waits.for_answer(task, timeout=timedelta(seconds=_LOOK_S))
            except (BusError, TimeoutError):
                return

    async def _post(self, task: TaskId, number: int) -> None:
        event = new_event_id()
        mentions = self._team[1:2] if self._chance.random() < 0.4 else ()
        data = MessagePosted(parts=(TextPart(f"{number}"),))

        async def post_it() -> Appended:
            return await self._bus.append(
                data, task=task, thread=MAIN_THREAD, mentions=mentions, event_id=event
            )

        await self._noted(task, event, post_it)

    async def _noted(self, task: TaskId, event: EventId, act: Attempt) -> bool:
        """Append, try again where nobody knows, and note it all; True once it is acknowledged."""
        self._journal.note(Phase.INVOKE, event, task=task)
        for _ in range(_TRIES):
            try:
                appended = await act()
            except _REFUSALS as error:
                self._journal.note(Phase.FAIL, event, task=task, why=repr(error))
                return False
            except ClosedError as error:
                self._journal.note(Phase.INFO, event, task=task, why=repr(error))
                return False
            except (AppendError, BusError, TimeoutError) as error:
                self._journal.note(Phase.INFO, event, task=task, why=repr(error))
            else:
                self._journal.note(Phase.OK, event, task=task, seq=appended.seq)
                return True
        return False

    async def close_up(self, task: TaskId) -> None:
        """End a super-task that nobody is going to end."""
        event = new_event_id()

        async def close_it() -> Appended:
            return await self._bus.tasks.close(
                task, TaskStatus.CANCELLED, summary="the scenario is over", event_id=event
            )

        await self._noted(task, event, close_it)


async def main(url: str, name: str, journal_path: Path, seed: int, team: tuple[str, ...]) -> None:
    """Write until SIGTERM."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    settings = BusSettings.from_env(url=url)
    with Journal(journal_path) as journal:
        async with connect(settings, name=name) as bus:
            writer = Writer(bus, journal, random.Random(seed), team)
            await writer.register()
            await writer.write(over, 10_000)


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), tuple(sys.argv[5:]))
    )
