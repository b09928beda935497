"""What a handler returns becomes an event: an answer, a result or a message, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from threadbus.agents.answering import submit_once
from threadbus.agents.errors import BadReplyError
from threadbus.agents.journal import Journal
from threadbus.agents.mention import Reply
from threadbus.bus import Bus, NotAParticipantError
from threadbus.schemas import (
    AnswerSubmitted,
    AnyData,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    DataPart,
    Event,
    EventData,
    FilePart,
    InputGiven,
    MessagePosted,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    TaskOpened,
    TextPart,
    as_parts,
)

_PARTS = (TextPart, DataPart, FilePart, ReferencePart)


def check_reply(reply: object) -> None:
    """Check what came out of a handler, which may be anything.

    Raises:
        BadReplyError: it is no reply.
    """
    if reply is None or isinstance(reply, str | EventData | TextPart | DataPart):
        return
    if isinstance(reply, FilePart | ReferencePart):
        return
    if not isinstance(reply, list | tuple):
        raise BadReplyError(f"a {type(reply).__name__}")
    for item in cast("Sequence[object]", reply):
        if not isinstance(item, _PARTS):
            raise BadReplyError(f"a sequence with a {type(item).__name__} in it")


class Replies:
    """Appends the reply of one turn."""

    def __init__(self, bus: Bus, event: Event, journal: Journal) -> None:
        self._bus = bus
        self._event = event
        self._journal = journal
        self._id = journal.id_of("reply")

    async def append(self, reply: Reply) -> None:
        """Append *reply* as what the mention asks for; nothing where it stands in the log.

        Raises:
            BadReplyError: it is no reply.
            AppendError, SchemaError: it was refused.
        """
        check_reply(reply)
        if reply is None:
            return
        if isinstance(reply, AnswerSubmitted):
            await self._submit(reply, ())
            return
        if isinstance(reply, EventData):
            await self._say(cast("AnyData", reply), ())
            return
        parts, event = as_parts(reply), self._event
        asker = () if event.sender == self._bus.name else (event.sender,)
        match event.data:
            case TaskOpened() as data:
                await self._submit(AnswerSubmitted(parts=parts), () if data.awaited else asker)
            case InputGiven():
                await self._submit(AnswerSubmitted(parts=parts), ())
            case AssignmentMade() as data:
                waits = data.mode is AssignmentMode.SYNC
                done = AssignmentFinished(assignment=event.id, parts=parts)
                await self._say(done, () if waits else asker)
            case MessagePosted(awaited=True):
                await self._post(parts, ())
            case _:
                await self._post(parts, () if await self._is_answer_to_us() else asker)

    async def complete(self) -> bool:
        """Finish what a process that died had begun; return whether the reply stands."""
        found = self._journal.find(self._id)
        if found is None:
            return False
        if isinstance(found.event.data, AnswerSubmitted):
            # The answer stands; whether the task was closed with it is not known.
            await self._submit(found.event.data, ())
        return True

    async def _submit(self, answer: AnswerSubmitted, mentions: Sequence[str]) -> None:
        await submit_once(self._bus, self._journal, self._event, self._id, answer, mentions)

    async def _post(self, parts: Parts | Sequence[Part], mentions: Sequence[str]) -> None:
        await self._say(MessagePosted(parts=tuple(parts)), mentions)

    async def _say(self, data: AnyData, mentions: Sequence[str]) -> None:
        if self._journal.find(self._id) is not None:
            return
        try:
            await self._append(data, mentions)
        except NotAParticipantError as refusal:
            if not mentions or self._bus.name in refusal.names:
                raise
            # Whoever asked has left the thread: the others can still read the answer.
            await self._append(data, ())

    async def _append(self, data: AnyData, mentions: Sequence[str]) -> None:
        self._journal.note(
            await self._bus.append(
                data,
                task=self._event.task,
                thread=self._event.thread,
                mentions=mentions,
                cause=self._event.id,
                event_id=self._id,
            )
        )

    async def _is_answer_to_us(self) -> bool:
        """Whether the mention answers what this agent said; a reply then wakes nobody.

        Otherwise two agents that return something each time would wake each other for ever.
        """
        event = self._event
        if isinstance(event.data, AssignmentFinished | AssignmentFailed | AnswerSubmitted):
            return True
        if event.cause is None or not isinstance(event.data, MessagePosted):
            return False
        async for entry in self._bus.read(event.task, event.thread):
            if isinstance(entry, Recorded) and entry.event.id == event.cause:
                return entry.event.sender == self._bus.name
        return False
