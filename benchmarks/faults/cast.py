"""Scripted writers in one super-task on a real server.

What the bus would let through goes through the bus, under the guard; what only a broken or hostile
writer would send is published past it, as any program with the server's address could.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from nats.js import JetStreamContext

from threadbus.bus import Bus
from threadbus.replay import LogItem
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AnyData,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    CritiqueGiven,
    CritiqueVerdict,
    ErrorInfo,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    HandlingStarted,
    Lane,
    MessagePosted,
    ModelCalled,
    ProposalMade,
    Recorded,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadId,
    ToolCalled,
    ToolReturned,
    VoteCast,
    VoteVerdict,
    encode_event,
    make_event,
    new_event_id,
    new_task_id,
)

SECOND: Final = 1_000_000_000
NOWHERE: Final = EventId("0" * 31 + "1")
"""The id of an event that there is none of."""


class Entry(msgspec.Struct, frozen=True):
    """Something that was said, where it landed in the log."""

    seq: int
    event: Event

    @property
    def id(self) -> EventId:
        """Its id."""
        return self.event.id


class Cast:
    """Everybody in one super-task."""

    def __init__(self, bus: Bus, stream: JetStreamContext, url: str) -> None:
        self.bus = bus
        self.url = url
        self.task = new_task_id()
        self._stream = stream
        self._asked: Entry | None = None

    @property
    def asked(self) -> Entry:
        """The opening of the task."""
        if self._asked is None:
            raise RuntimeError("the task was not opened yet")
        return self._asked

    def stand_on(self, log: Sequence[LogItem]) -> None:
        """Go on with a log that begins with the opening of the task."""
        opening = next(item for item in log if isinstance(item, Recorded))
        self._asked = Entry(opening.seq, opening.event)

    async def open(
        self, *agents: str, question: str = "What was sold in March?", **fields: object
    ) -> Entry:
        """Open the task; the first of the agents is asked."""
        data = TaskOpened(title=question, participants=agents, parts=(TextPart(question),))
        data = msgspec.structs.replace(data, **fields)
        self._asked = await self.add("user", data, to=agents[:1])
        return self._asked

    async def add(
        self,
        sender: str,
        data: AnyData,
        *,
        cause: Entry | None = None,
        to: Sequence[str] = (),
        thread: ThreadId = MAIN_THREAD,
    ) -> Entry:
        """Append an event."""
        appended = await self.bus.acting_as(sender).append(
            data,
            task=self.task,
            thread=thread,
            mentions=to,
            cause=None if cause is None else cause.id,
        )
        return Entry(appended.seq, appended.event)

    async def force(
        self,
        sender: str,
        data: AnyData,
        *,
        cause: EventId | None = None,
        to: Sequence[str] = (),
        thread: ThreadId = MAIN_THREAD,
        event_id: EventId | None = None,
    ) -> Entry:
        """Publish an event past the guard."""
        event = make_event(
            data,
            task=self.task,
            thread=thread,
            sender=AgentName(sender),
            cause=cause,
            mentions=tuple([AgentName(name) for name in to]),
            event_id=event_id or new_event_id(),
        )
        return Entry(await self.put(event.subject, encode_event(event)), event)

    async def put(self, subject: str, body: bytes) -> int:
        """Put any bytes into the log, without an id that the server would look at."""
        return (await self._stream.publish(subject, body)).seq

    async def junk(self, sender: str, body: bytes) -> int:
        """Put bytes into the log where *sender* would speak."""
        return await self.put(
            f"bus.{self.task}.{MAIN_THREAD}.{EventClass.MSG.value}.{sender}", body
        )

    # what agents usually do

    async def say(
        self,
        sender: str,
        text: str,
        *,
        to: Sequence[str] = (),
        cause: Entry | None = None,
        awaited: bool = False,
        quick: bool = False,
        thread: ThreadId = MAIN_THREAD,
    ) -> Entry:
        """Post a message."""
        lane = Lane.QUICK if quick else Lane.NORMAL
        posted = MessagePosted(parts=(TextPart(text),), awaited=awaited, lane=lane)
        return await self.add(sender, posted, to=to, cause=cause, thread=thread)

    async def assign(
        self,
        sender: str,
        to: str,
        text: str,
        *,
        cause: Entry | None = None,
        later: bool = False,
        deadline_s: float | None = None,
        thread: ThreadId = MAIN_THREAD,
    ) -> Entry:
        """Give work away; *later* does not wait for it."""
        made = AssignmentMade(
            assignee=to,
            parts=(TextPart(text),),
            mode=AssignmentMode.ASYNC if later else AssignmentMode.SYNC,
            deadline_at=None if deadline_s is None else time.time_ns() + int(deadline_s * SECOND),
        )
        return await self.add(sender, made, to=(to,), cause=cause or self.asked, thread=thread)

    async def finish(self, work: Entry, text: str, *, to: Sequence[str] = ()) -> Entry:
        """Report the result of work, and end the turn."""
        (name,) = work.event.addressees
        found = AssignmentFinished(assignment=work.id, parts=(TextPart(text),))
        said = await self.add(name, found, cause=work, to=to, thread=work.event.thread)
        await self.end(name, work)
        return said

    async def work(self, lead: str, agent: str, text: str, result: str) -> Entry:
        """Do one piece of work from beginning to end; return its result."""
        made = await self.assign(lead, agent, text)
        await self.model(agent, made)
        return await self.finish(made, result)

    async def reply(self, sender: str, cause: Entry, text: str) -> Entry:
        """Reply to a message, and end the turn."""
        said = await self.say(sender, text, cause=cause, thread=cause.event.thread)
        await self.end(sender, cause)
        return said

    async def begin(self, agent: str, cause: Entry, attempt: int = 1) -> Entry:
        """Begin to handle a mention, for longer than a moment."""
        started = HandlingStarted(attempt=attempt, replica=f"{agent}-{attempt}")
        return await self.add(agent, started, cause=cause, thread=cause.event.thread)

    async def end(self, agent: str, cause: Entry, attempt: int = 1) -> Entry:
        """End the handling of a mention."""
        now = time.time_ns()
        began = max(cause.event.at, now - SECOND)
        ended = HandlingEnded(received_at=began, started_at=began, ended_at=now, attempt=attempt)
        return await self.add(agent, ended, cause=cause, thread=cause.event.thread)

    async def model(
        self,
        agent: str,
        cause: Entry,
        *,
        tokens: int = 600,
        took_s: float = 0.01,
        error: ErrorInfo | None = None,
        finish_reason: str = "stop",
    ) -> Entry:
        """Call a model."""
        called = ModelCalled(
            model="small-1",
            started_at=time.time_ns() - int(took_s * SECOND),
            duration_ns=int(took_s * SECOND),
            input_tokens=tokens,
            output_tokens=tokens // 6,
            finish_reason="" if error else finish_reason,
            error=error,
        )
        return await self.add(agent, called, cause=cause, thread=cause.event.thread)

    async def tool(
        self,
        agent: str,
        cause: Entry,
        tool: str,
        arguments: Mapping[str, object],
        result: str = "",
        *,
        error: ErrorInfo | None = None,
        took_s: float = 0,
    ) -> tuple[Entry, Entry]:
        """Call a tool; return the call and what came back."""
        call_id = new_event_id()[-12:]
        thread = cause.event.thread
        called = await self.add(
            agent,
            ToolCalled(call_id=call_id, tool=tool, arguments=dict(arguments)),
            cause=cause,
            thread=thread,
        )
        if took_s:
            await asyncio.sleep(took_s)
        returned = await self.add(
            agent,
            ToolReturned(
                call_id=call_id,
                tool=tool,
                duration_ns=int(took_s * SECOND),
                parts=(TextPart(result),) if result else (),
                error=error,
            ),
            cause=cause,
            thread=thread,
        )
        return called, returned

    async def critique(self, sender: str, of: Entry, *, accepts: bool, reason: str) -> Entry:
        """Accept something, or object to it."""
        verdict = CritiqueVerdict.ACCEPT if accepts else CritiqueVerdict.UNCERTAIN
        given = CritiqueGiven(of=of.id, verdict=verdict, reasons=(reason,))
        return await self.add(sender, given, cause=of)

    async def propose(
        self, sender: str, text: str, voters: Sequence[str], quorum: int | None = None
    ) -> Entry:
        """Put something to the vote."""
        made = ProposalMade(parts=(TextPart(text),), voters=tuple(voters), quorum=quorum)
        return await self.add(sender, made, to=voters, cause=self.asked)

    async def vote(self, sender: str, proposal: Entry, *, approves: bool = True) -> Entry:
        """Vote, and end the turn."""
        verdict = VoteVerdict.APPROVE if approves else VoteVerdict.REJECT
        cast = await self.add(
            sender, VoteCast(proposal=proposal.id, verdict=verdict), cause=proposal
        )
        await self.end(sender, proposal)
        return cast

    async def answer(self, sender: str, text: str = "Twelve units were sold.") -> Entry:
        """Submit an answer to the task."""
        return await self.add(sender, AnswerSubmitted(parts=(TextPart(text),)), cause=self.asked)

    async def close(
        self,
        sender: str,
        answer: Entry | None = None,
        *,
        outcome: TaskStatus = TaskStatus.COMPLETED,
        summary: str = "",
    ) -> Entry:
        """Close the task."""
        closed = TaskClosed(
            outcome=outcome, answer=None if answer is None else answer.id, summary=summary
        )
        return await self.add(sender, closed, cause=answer)

    async def done(self, sender: str, text: str = "Twelve units were sold.") -> Entry:
        """Answer the task, close it, and end the turn; return the answer."""
        answer = await self.answer(sender, text)
        await self.close(sender, answer)
        await self.end(sender, self.asked)
        return answer
