"""The log of a made-up run, grown event by event: what the tests of replay read."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay import Timeline, Turn
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AnyData,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ErrorInfo,
    EventId,
    HandlingEnded,
    MessagePosted,
    ModelCalled,
    Recorded,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadId,
    ToolCalled,
    ToolReturned,
    encode_event,
    make_event,
)

MS: Final = 1_000_000
START: Final = 1_772_366_405 * 1_000 * MS
"""2026-03-01 12:00:05 UTC."""

TASK: Final = TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a71")
NUMBERS: Final = ThreadId("check-numbers-a1b2c3")


class Story:
    """A log that grows by one event at a time; ids and times follow from the order."""

    def __init__(self, task: TaskId = TASK, start: int = START) -> None:
        self.task = task
        self.now = start
        self.log: list[Recorded] = []

    def add(
        self,
        sender: str,
        data: AnyData,
        *,
        after_ms: float = 0,
        thread: str = MAIN_THREAD,
        cause: EventId | None = None,
        mentions: tuple[str, ...] = (),
        type_name: str = "",
    ) -> EventId:
        """Append an event, *after_ms* milliseconds after the one before.

        Opaque data needs the name of its type.
        """
        self.now += int(after_ms * MS)
        number = len(self.log) + 1
        event = make_event(
            data,
            task=self.task,
            thread=ThreadId(thread),
            sender=AgentName(sender),
            cause=cause,
            mentions=tuple([AgentName(name) for name in mentions]),
            event_id=EventId(f"{self.task[:12]}7000{0x8000000000000000 + number:016x}"),
            at=self.now,
        )
        if type_name:
            event = msgspec.structs.replace(event, type=type_name)
        self.log.append(Recorded(number * 3, event, self.now + MS, encode_event(event)))
        return event.id

    def ask(self, *to: str, title: str = "A question") -> EventId:
        """Append the opening of the task, with a question to some agents."""
        data = TaskOpened(title=title, parts=(TextPart("What?"),))
        return self.add("user", data, mentions=to)

    def say(
        self,
        sender: str,
        text: str,
        *,
        to: tuple[str, ...] = (),
        after_ms: float = 0,
        thread: str = MAIN_THREAD,
        cause: EventId | None = None,
        awaited: bool = False,
    ) -> EventId:
        """Append a message."""
        return self.add(
            sender,
            MessagePosted(parts=(TextPart(text),), awaited=awaited),
            after_ms=after_ms,
            thread=thread,
            cause=cause,
            mentions=to,
        )

    def open(self, *agents: str, **fields: object) -> EventId:
        """Append the opening of the task for these agents; the first one is asked."""
        data = TaskOpened(title="A question", participants=agents, parts=(TextPart("What?"),))
        return self.add("user", msgspec.structs.replace(data, **fields), mentions=agents[:1])

    def assign(
        self,
        sender: str,
        to: str,
        text: str,
        cause: EventId | None = None,
        *,
        mode: AssignmentMode = AssignmentMode.SYNC,
        after_ms: float = 0,
        deadline_at: int | None = None,
    ) -> EventId:
        """Append an assignment."""
        parts = (TextPart(text),)
        data = AssignmentMade(assignee=to, parts=parts, mode=mode, deadline_at=deadline_at)
        return self.add(sender, data, cause=cause, mentions=(to,), after_ms=after_ms)

    def finish(
        self,
        sender: str,
        assignment: EventId,
        text: str,
        *,
        to: tuple[str, ...] = (),
        after_ms: float = 0,
    ) -> EventId:
        """Append the result of an assignment."""
        data = AssignmentFinished(assignment=assignment, parts=(TextPart(text),))
        return self.add(sender, data, cause=assignment, mentions=to, after_ms=after_ms)

    def answer(
        self,
        sender: str,
        text: str,
        cause: EventId,
        *,
        sources: tuple[EventId, ...] = (),
        after_ms: float = 0,
    ) -> EventId:
        """Append an answer to the task."""
        data = AnswerSubmitted(parts=(TextPart(text),), sources=sources)
        return self.add(sender, data, cause=cause, after_ms=after_ms)

    def close(self, sender: str, answer: EventId | None = None, *, after_ms: float = 1) -> EventId:
        """Append the close of the task: completed with an answer, or else failed."""
        outcome = TaskStatus.FAILED if answer is None else TaskStatus.COMPLETED
        data = TaskClosed(outcome=outcome, answer=answer)
        return self.add(sender, data, cause=answer, after_ms=after_ms)

    def model(
        self,
        sender: str,
        cause: EventId,
        *,
        took_ms: int = 1200,
        tokens: tuple[int, int] = (512, 88),
        name: str = "small-1",
        system: str = "",
        thread: str = MAIN_THREAD,
        error: ErrorInfo | None = None,
    ) -> EventId:
        """Append a model call that ends now."""
        self.now += took_ms * MS
        return self.add(
            sender,
            ModelCalled(
                model=name,
                started_at=self.now - took_ms * MS,
                duration_ns=took_ms * MS,
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                finish_reason="stop",
                system=system,
                error=error,
            ),
            cause=cause,
            thread=thread,
        )

    def tool(
        self,
        sender: str,
        cause: EventId,
        tool: str,
        arguments: dict[str, object],
        result: str = "",
        *,
        took_ms: int = 40,
        thread: str = MAIN_THREAD,
        error: ErrorInfo | None = None,
    ) -> None:
        """Append a tool call and what it returned."""
        call_id = f"call-{len(self.log)}"
        called = ToolCalled(call_id=call_id, tool=tool, arguments=arguments)
        self.add(sender, called, cause=cause, thread=thread, after_ms=1)
        self.add(
            sender,
            ToolReturned(
                call_id=call_id,
                tool=tool,
                duration_ns=took_ms * MS,
                parts=(TextPart(result),) if result else (),
                error=error,
            ),
            cause=cause,
            thread=thread,
            after_ms=took_ms,
        )

    def end(
        self,
        sender: str,
        cause: EventId,
        *,
        worked_ms: int,
        waited_ms: int = 2,
        attempt: int = 1,
        thread: str = MAIN_THREAD,
    ) -> EventId:
        """Append the end of a handler that began *worked_ms* ago."""
        return self.add(
            sender,
            HandlingEnded(
                received_at=self.now - (worked_ms + waited_ms) * MS,
                started_at=self.now - worked_ms * MS,
                ended_at=self.now,
                attempt=attempt,
                replica=f"{sender}-1",
            ),
            cause=cause,
            thread=thread,
        )


def turns(timeline: Timeline, agent: str) -> list[Turn]:
    """Return the turns of one agent in the order of the threads."""
    return [
        entry
        for story in timeline.threads.values()
        for entry in story.entries
        if isinstance(entry, Turn) and entry.agent == agent
    ]
