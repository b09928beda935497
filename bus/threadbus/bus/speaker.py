"""One name on the bus: turns what it has to say into events and appends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from threadbus.bus.appended import Appended, AppendedPair
from threadbus.bus.artifacts import Artifacts
from threadbus.bus.errors import NotAParticipantError
from threadbus.bus.log import EventLog
from threadbus.bus.registry import Registry
from threadbus.bus.state import ThreadState
from threadbus.bus.turns import conclude_if_due, may_be_due
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    ArtifactAdded,
    Event,
    EventId,
    ModelCalled,
    Part,
    Parts,
    TaskId,
    ThreadId,
    make_event,
    parse_agent_name,
)


class Speaker:
    """A sender name and what it needs to append under it."""

    def __init__(
        self, name: AgentName, log: EventLog, registry: Registry, artifacts: Artifacts
    ) -> None:
        self.name = name
        self.log = log
        self.registry = registry
        self.artifacts = artifacts

    async def event(
        self,
        data: AnyData,
        *,
        task: TaskId,
        thread: ThreadId = MAIN_THREAD,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Event:
        """Make an event under this name; large parts go to the object store."""
        name = _content_field(data)
        content: Part | Parts = getattr(data, name, ())
        if not self.artifacts.fit(content if isinstance(content, tuple) else (content,)):
            data = await self._offload(data, name, content)
        return make_event(
            data,
            task=task,
            thread=thread,
            sender=self.name,
            cause=cause,
            mentions=tuple([parse_agent_name(name) for name in mentions]),
            event_id=event_id,
        )

    async def say(
        self,
        data: AnyData,
        *,
        task: TaskId,
        thread: ThreadId = MAIN_THREAD,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        event_id: EventId | None = None,
        check: Callable[[ThreadState], None] | None = None,
    ) -> Appended:
        """Append an event under this name; large parts go to the object store first.

        Raises:
            UnknownAgentError: a mention is neither a participant nor registered.
            AppendError: see :meth:`EventLog.append`.
        """
        event = await self.event(
            data, task=task, thread=thread, mentions=mentions, cause=cause, event_id=event_id
        )
        if may_be_due(self.log, event):
            await conclude_if_due(self.log, event, said=False)
        try:
            appended = await self.log.append(event, check)
        except NotAParticipantError as refusal:
            await self._check_known(refusal)
            raise
        if may_be_due(self.log, event):
            await conclude_if_due(self.log, event, said=True)
        return appended

    async def say_pair(self, first: Event, second: Event) -> AppendedPair:
        """Append two events of one thread, the second never without the first.

        Raises:
            UnknownAgentError: a mention is neither a participant nor registered.
            AppendError: see :meth:`EventLog.append_pair`.
        """
        try:
            return await self.log.append_pair(first, second)
        except NotAParticipantError as refusal:
            await self._check_known(refusal)
            raise

    async def _check_known(self, refusal: NotAParticipantError) -> None:
        """The nearest names help more than a list of participants where a name is misspelt."""
        await self.registry.check_known([name for name in refusal.names if name != self.name])

    async def note(
        self,
        data: AnyData,
        *,
        task: TaskId,
        thread: ThreadId = MAIN_THREAD,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> EventId:
        """Send an observation without waiting for its acknowledgement; return its id."""
        event = await self.event(
            data, task=task, thread=thread, mentions=mentions, cause=cause, event_id=event_id
        )
        await self.log.observe(event)
        return event.id

    async def _offload(self, data: AnyData, name: str, content: Part | Parts) -> AnyData:
        if isinstance(content, tuple):
            kept: Part | Parts = await self.artifacts.offload(content)
        else:
            (kept,) = await self.artifacts.offload((content,))
        return msgspec.structs.replace(data, **{name: kept})


def _content_field(data: AnyData) -> str:
    """Return where the content is: most types that have any call it their parts."""
    if isinstance(data, ArtifactAdded):
        return "part"
    return "output" if isinstance(data, ModelCalled) else "parts"
