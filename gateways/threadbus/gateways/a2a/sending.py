"""A message becomes a super-task, an answer to a question, or a message in a task that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from threadbus.bus import Appended, Bus
from threadbus.gateways.a2a.callers import TRACEPARENT, Agents, Caller
from threadbus.gateways.a2a.ids import AGENT, CONTEXT, MESSAGE, PUSH_TASK, event_of, task_of
from threadbus.gateways.a2a.index import TaskIndex
from threadbus.gateways.a2a.log import TaskLog
from threadbus.gateways.a2a.parts import to_bus
from threadbus.gateways.a2a.view import Position, TaskView, Update
from threadbus.schemas import (
    MAIN_THREAD,
    MAX_WORD_CHARS,
    AgentName,
    EventId,
    MentionStored,
    Recorded,
    clean_text,
)

_MAX_BUSES: Final = 1000


class Sending:
    """What the messages of clients do to the bus."""

    def __init__(
        self, bus: Bus, log: TaskLog, index: TaskIndex, agents: Agents, team: Sequence[AgentName]
    ) -> None:
        self._bus = bus
        self._log = log
        self._index = index
        self._agents = agents
        self._team = team
        self._buses: dict[AgentName, Bus] = {}

    def bus_of(self, caller: Caller) -> Bus:
        """Return the bus as the caller speaks on it."""
        found = self._buses.get(caller.agent)
        if found is None:
            if len(self._buses) >= _MAX_BUSES:
                self._buses.clear()
            found = self._buses[caller.agent] = self._bus.acting_as(caller.agent)
        return found

    async def visible(self, caller: Caller, task: str) -> TaskView:
        """Return a task in which the caller takes part.

        Raises:
            TaskNotFoundError: there is none, or it is somebody else's: nobody learns which.
        """
        view = await self._log.view(task)
        if view is None or not view.shows(caller.agent) or PUSH_TASK in view.labels:
            raise TaskNotFoundError
        return view

    async def converse(
        self, caller: Caller, message: pb.Message, *, timeout_s: float | None = None
    ) -> AsyncGenerator[tuple[TaskView, tuple[Position, Update] | None]]:
        """Deliver a message and follow what comes of it.

        Yields:
            The task with the message in it and no update; then the task with each update, until it
            ends, the time is up or the gateway stops.
        """
        message_id = _checked_id("messageId", message.message_id)
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        if message.task_id:
            view = await self._follow_up(caller, message)
            yield view, None
        else:
            task = task_of(caller.agent, message_id)
            bus = self.bus_of(caller)
            async with bus.waits.following(task, new=True) as entries:
                opened = await self._open(caller, message)
                if not opened.duplicate:
                    view = self._log.begin(task)
                    await self._log.fold(view, Recorded(opened.seq, opened.event))
                    yield view, None
                    async with aclosing(
                        self._log.updates_from(entries, view, caller.agent, deadline=deadline)
                    ) as updates:
                        async for update in updates:
                            yield view, update
                    return
            # The same message again: what it began is found, not begun again.
            view = await self.visible(caller, task)
            yield view, None
        followed = self._log.updates(view, caller.agent, deadline=deadline)
        async with aclosing(followed) as updates:
            async for update in updates:
                yield view, update

    async def _open(self, caller: Caller, message: pb.Message) -> Appended:
        task = task_of(caller.agent, message.message_id)
        context = message.context_id and _checked_id("contextId", message.context_id)
        parts = to_bus(message.parts, message.metadata)
        team = await self._agents.team(caller.card, self._team)
        bus = self.bus_of(caller)
        opened = await bus.tasks.open(
            parts,
            to=team.asked,
            participants=team.others,
            labels={
                MESSAGE: message.message_id,
                CONTEXT: context or task,
                AGENT: caller.card,
                **({TRACEPARENT: caller.traceparent} if caller.traceparent else {}),
            },
            task=task,
            event_id=event_of(caller.agent, message.message_id, "open"),
            cause=await self._before(caller, message),
        )
        if not opened.duplicate:
            known = await self._agents.all()
            away = [name for name in team.asked if name in known and not known[name].is_living]
            if away:
                await bus.observe(
                    MentionStored(agents=tuple(away)), task=task, cause=opened.event.id
                )
        return opened

    async def _before(self, caller: Caller, message: pb.Message) -> EventId | None:
        """Return the opening of the task that this one goes on from, so that agents find it."""
        if message.context_id:
            row = await self._index.latest_in(caller.agent, message.context_id)
            if row is not None:
                return row.opening
        if message.reference_task_ids:
            rows = {row.task: row for row in await self._index.rows(caller.agent)}
            for task in message.reference_task_ids:
                if task in rows:
                    return next(row.opening for key, row in rows.items() if key == task)
        return None

    async def _follow_up(self, caller: Caller, message: pb.Message) -> TaskView:
        view = await self.visible(caller, message.task_id)
        if message.context_id and message.context_id != view.context:
            raise InvalidParamsError("The task is in another context.")
        if view.has_message(caller.agent, message.message_id):
            return view
        if view.is_terminal:
            raise UnsupportedOperationError("The task has ended; open another one in its context.")
        parts = to_bus(message.parts, message.metadata)
        bus, task = self.bus_of(caller), view.bus.task
        labels = {MESSAGE: message.message_id}
        if view.bus.requests:
            request = next(iter(view.bus.requests))
            await bus.tasks.give_input(task, parts, request=request, labels=labels)
        else:
            main = view.bus.thread(MAIN_THREAD)
            await bus.send(
                task,
                MAIN_THREAD,
                parts,
                mentions=[name for name in view.asked if name in main.participants],
                awaited=True,
                labels=labels,
                event_id=event_of(caller.agent, message.message_id, "say"),
            )
        async with aclosing(bus.read(task, after=view.bus.last_seq)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded):
                    await self._log.fold(view, entry)
        return view


def check_modes(message: pb.Message, card: pb.AgentCard) -> None:
    """Check that an agent takes the media types of a message's parts.

    Raises:
        ContentTypeNotSupportedError: it does not say so of one that the message names.
    """
    taken = set(card.default_input_modes)
    taken.update(mode for skill in card.skills for mode in skill.input_modes)
    for part in message.parts:
        if part.media_type and taken and part.media_type not in taken:
            raise ContentTypeNotSupportedError(
                f"The media type {clean_text(part.media_type, 100)} is not taken; "
                f"these are: {', '.join(sorted(taken))}"
            )


def _checked_id(what: str, value: str) -> str:
    """Check an id that a client chose: it has to come back as it was.

    Raises:
        InvalidParamsError: it is empty, too long, or holds what cannot travel.
    """
    if not value or len(value) > MAX_WORD_CHARS or clean_text(value) != value:
        raise InvalidParamsError(
            f"{what} has to be 1 to {MAX_WORD_CHARS} characters without NUL or lone surrogates."
        )
    return value
