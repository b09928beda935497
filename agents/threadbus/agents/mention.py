"""What a handler gets: the mention, and everything that it can do about it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from threadbus.agents.answering import submit_once
from threadbus.agents.context import context_of
from threadbus.agents.counting import counted
from threadbus.agents.journal import Places
from threadbus.agents.threads import in_thread
from threadbus.bus import DEFAULT_WAIT, Appended, AssignmentResult, Bus, ThreadState
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AnyData,
    ArtifactAdded,
    AssignmentMade,
    AssignmentMode,
    AssignmentProgressed,
    Event,
    EventData,
    EventId,
    FilePart,
    InputGiven,
    Lane,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    TaskId,
    ThreadId,
    as_parts,
    derive_thread_id,
    parse_agent_name,
    text_of,
)

if TYPE_CHECKING:
    from threadbus.agents.thinking import Thinking

Content: TypeAlias = str | Part | Sequence[Part]
Reply: TypeAlias = str | Part | Sequence[Part] | EventData | None


class Mention:
    """One mention of the agent, under its lease.

    Whatever is appended through it has an id derived from the mention, so that a turn which runs
    again after a crash finds its own events instead of repeating them. A handler should therefore
    do the same things in the same order when it is run again.
    """

    def __init__(
        self, bus: Bus, recorded: Recorded, places: Places, thinking: Thinking, attempt: int
    ) -> None:
        self._bus = bus
        self._places = places
        self._journal = places.journal
        self._recorded = recorded
        self.thinking = thinking
        """The model, with every call on record."""
        self.attempt = attempt
        """Which attempt this is, from 1."""
        self.progress_note = ""
        """What was last said of the progress."""

    @property
    def event(self) -> Event:
        """The event that mentions the agent."""
        return self._recorded.event

    @property
    def seq(self) -> int:
        """Its sequence in the log."""
        return self._recorded.seq

    @property
    def traceparent(self) -> str:
        """The W3C trace context of this turn: what is traced beneath it is shown beneath it."""
        return context_of(self.event, self._bus.name)

    @property
    def task(self) -> TaskId:
        """The super-task."""
        return self.event.task

    @property
    def thread(self) -> ThreadId:
        """The thread in it."""
        return self.event.thread

    @property
    def sender(self) -> AgentName:
        """Who mentions the agent."""
        return self.event.sender

    @property
    def agent(self) -> AgentName:
        """The agent itself."""
        return self._bus.name

    @property
    def bus(self) -> Bus:
        """The bus, for what this class has no word for; ids are then the handler's own matter."""
        return self._bus

    @property
    def parts(self) -> Parts:
        """What was said, in parts."""
        return getattr(self.event.data, "parts", ())

    @property
    def text(self) -> str:
        """What was said, as text."""
        return text_of(self.parts)

    # reading

    async def history(self, *, thread: ThreadId | None = None, after: int = 0) -> list[Recorded]:
        """Read a thread of the super-task; the mention's own when absent.

        What somebody outside the thread has put there past the guard is left out.

        Args:
            thread: which one.
            after: only what is later than this sequence: what the agent has not seen yet.

        Cancellation: safe.
        """
        return await counted(self._bus, self.task, thread or self.thread, after)

    async def participants(self) -> ThreadState:
        """Return the thread as it is now: who takes part, whether it is open."""
        return await self._bus.threads.state(self.task, self.thread)

    async def load(self, part: Part) -> bytes:
        """Return the bytes of a part, from the object store where they are there."""
        if isinstance(part, ReferencePart):
            return await self._bus.artifacts.get(part)
        if isinstance(part, FilePart):
            return part.content
        return text_of([part]).encode()

    async def files(self) -> list[FilePart]:
        """Return the files that came with the mention, their bytes loaded and checked."""
        found: list[FilePart] = []
        for part in self.parts:
            loaded = await self._bus.artifacts.load(part)
            if isinstance(loaded, FilePart):
                found.append(loaded)
        return found

    # saying

    async def append(
        self,
        data: AnyData,
        *,
        thread: ThreadId | None = None,
        mentions: Sequence[str] = (),
        event_id: EventId | None = None,
    ) -> Appended:
        """Append an event of any type, once for this place in the turn.

        Raises:
            AppendError, SchemaError: see :meth:`Bus.append`.
        """
        event_id = event_id or self._places.next_id()
        found = self._journal.find(event_id)
        if found is not None:
            return found
        return self._journal.note(
            await self._bus.append(
                data,
                task=self.task,
                thread=thread or self.thread,
                mentions=mentions,
                cause=self.event.id,
                event_id=event_id,
            )
        )

    async def say(
        self, content: Content, *, mentions: Sequence[str] = (), thread: ThreadId | None = None
    ) -> Appended:
        """Post a message, beside the reply that the handler returns."""
        event_id = self._places.next_id()
        found = self._journal.find(event_id)
        if found is not None:
            return found
        return self._journal.note(
            await self._bus.send(
                self.task,
                thread or self.thread,
                content,
                mentions=mentions,
                cause=self.event.id,
                event_id=event_id,
            )
        )

    async def ask(
        self,
        agent: str,
        content: Content,
        *,
        thread: ThreadId | None = None,
        quick: bool = False,
        timeout: timedelta = DEFAULT_WAIT,
    ) -> str:
        """Ask another participant and wait for what it says, as text.

        Raises:
            MentionFailedError: it gave up.
            WaitTimeoutError: no reply in time.
            NotAParticipantError, UnknownAgentError: it cannot be asked.
        """
        event_id, where = self._places.next_id(), thread or self.thread
        found = self._journal.find(event_id)
        if found is None:
            reply = await self._bus.request(
                self.task,
                where,
                content,
                to=agent,
                timeout=timeout,
                cause=self.event.id,
                lane=Lane.QUICK if quick else Lane.NORMAL,
                event_id=event_id,
            )
        else:
            reply = await self._bus.waits.for_reply(
                self.task,
                found.event.thread,
                event_id,
                parse_agent_name(agent),
                after=found.seq,
                timeout=timeout,
            )
        parts: Parts = getattr(reply.data, "parts", ())
        return text_of([await self._bus.artifacts.load(part) for part in parts])

    async def assign(
        self,
        agent: str,
        content: Content,
        *,
        title: str = "",
        thread: ThreadId | None = None,
        timeout: timedelta = DEFAULT_WAIT,
    ) -> AssignmentResult:
        """Give a piece of work to a participant and wait for how it ends.

        Returns:
            The result; ``ok`` says whether the work was done.
        """
        made = await self.assign_later(
            agent, content, title=title, thread=thread, mode=AssignmentMode.SYNC
        )
        (result,) = await self.results([made], timeout=timeout)
        return result

    async def assign_later(
        self,
        agent: str,
        content: Content,
        *,
        title: str = "",
        thread: ThreadId | None = None,
        mode: AssignmentMode = AssignmentMode.ASYNC,
    ) -> Appended:
        """Give a piece of work to a participant without waiting; its result mentions this agent.

        With ``mode=SYNC`` the result mentions nobody: wait for it by :meth:`results`.
        """
        return await self.append(
            AssignmentMade(assignee=agent, parts=as_parts(content), title=title, mode=mode),
            thread=thread,
            mentions=[agent],
        )

    async def results(
        self, assignments: Sequence[Appended], *, timeout: timedelta = DEFAULT_WAIT
    ) -> list[AssignmentResult]:
        """Wait until each assignment has ended; in the order in which they were made."""
        ids = [made.event.id for made in assignments]
        after = min((made.seq for made in assignments), default=0)
        threads = {made.event.thread for made in assignments}
        found = await self._bus.waits.for_results(
            self.task,
            ids,
            timeout=timeout,
            thread=threads.pop() if len(threads) == 1 else None,
            after=after,
        )
        return [found[assignment] for assignment in ids]

    async def progress(self, note: str, fraction: float | None = None) -> None:
        """Say how far the work is: recorded for an assignment, shown to watchers always."""
        self.progress_note = note
        if isinstance(self.event.data, AssignmentMade):
            await self.append(
                AssignmentProgressed(assignment=self.event.id, note=note, fraction=fraction)
            )
        await self._bus.publish_live(
            self.task, self.thread, {"kind": "progress", "note": note, "fraction": fraction}
        )

    async def open_thread(
        self, title: str, *, participants: Sequence[str] = (), goal: str = ""
    ) -> ThreadId:
        """Open a thread below this one; the same one when the turn runs again."""
        event_id = self._places.next_id()
        found = self._journal.find(event_id)
        if found is not None:
            return found.event.thread
        opened = await self._bus.threads.open(
            self.task,
            title,
            participants=participants,
            parent=self.thread,
            goal=goal,
            thread=derive_thread_id(title, event_id, self.agent, 0),
            cause=self.event.id,
            event_id=event_id,
        )
        return self._journal.note(opened).event.thread

    async def save(
        self,
        name: str,
        part: Part,
        *,
        description: str = "",
        chunk_of: EventId | None = None,
        more: bool = False,
    ) -> Appended:
        """Add an artifact; large content goes to the object store.

        *chunk_of* names the event with the first chunk, where this is a later one; *more* says
        that a further one follows.
        """
        return await self.append(
            ArtifactAdded(
                name=name, part=part, description=description, chunk_of=chunk_of, more=more
            )
        )

    async def request_input(
        self, content: Content, *, auth: bool = False, timeout: timedelta = DEFAULT_WAIT
    ) -> str:
        """Ask whoever opened the super-task, and wait for the answer.

        Args:
            content: the question.
            auth: they are to sign in or hand over a credential, beside the bus.
            timeout: how long to wait; the question stays after it.

        Raises:
            WaitTimeoutError: no answer in time; the question stays.
        """
        event_id = self._places.next_id()
        found = self._journal.find(event_id)
        asked = found or self._journal.note(
            await self._bus.tasks.request_input(
                self.task, content, auth=auth, cause=self.event.id, event_id=event_id
            )
        )
        given = await self._bus.waits.for_input(
            self.task, asked.event.id, after=asked.seq, timeout=timeout
        )
        data = given.data
        return text_of(data.parts) if isinstance(data, InputGiven) else ""

    async def submit(
        self, content: Content, *, sources: Sequence[EventId] = (), dissent: Sequence[str] = ()
    ) -> Appended:
        """Submit an answer to the super-task and close it; for who was not asked by its opener."""
        answer = AnswerSubmitted(
            parts=as_parts(content), sources=tuple(sources), dissent=tuple(dissent)
        )
        return await submit_once(
            self._bus, self._journal, self.event, self._places.next_id(), answer, ()
        )

    async def call(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that may be plain or async; a plain one runs in a thread of its own.

        Cancellation: an async one is cancelled; a plain one runs on and its value is dropped.
        """
        if inspect.iscoroutinefunction(run):
            return await cast("Awaitable[Any]", run(*arguments))
        value = await in_thread(run, *arguments)
        return await value if inspect.isawaitable(value) else value
