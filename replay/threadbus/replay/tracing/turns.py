"""The turns and tools of one super-task that are open, and the spans that they end in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from threadbus.replay.steps import MAX_WORD_CHARS, cut, ns
from threadbus.replay.tracing import making
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.open import MAX_ASKED, MAX_LINKS, OpenTool, OpenTurn
from threadbus.schemas import (
    AgentName,
    ContextUsed,
    ErrorInfo,
    Event,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MentionReceived,
    MentionStored,
    ModelCalled,
    SpanId,
    TaskId,
    ThreadId,
    ToolCalled,
    ToolReturned,
    turn_span_id,
)

_HANDLING: Final = (
    ContextUsed,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    ModelCalled,
    ToolCalled,
    ToolReturned,
)
_REFERENCES: Final = ("assignment", "proposal", "request")

_Key = tuple[EventId, AgentName]


class OpenTurns:
    """Which turns are open, and which events belong to them.

    Args:
        seen: the low halves of the ids of final spans; those of turns are added.
        clock: gives a time of an agent's clock by the server's.
        content: whether spans carry what was said.
    """

    def __init__(
        self, seen: set[int], clock: Callable[[AgentName, int], int], *, content: bool
    ) -> None:
        self._seen = seen
        self._clock = clock
        self._content = content
        self._turns: dict[_Key, OpenTurn] = {}
        self._begun: set[_Key] = set()
        self._asked_by: dict[EventId, _Key] = {}
        """Events that an open turn put on the bus, and the answers to them."""
        self._loose: dict[str, OpenTool] = {}
        """Tools that were called outside of a turn."""
        self.ended = 0
        """Turns whose spans are final."""

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def any_begun(self) -> bool:
        """Whether an agent is at work, as far as the log tells."""
        return bool(self._begun)

    def find(self, seq: int, event: Event) -> OpenTurn | None:
        """Return the open turn that an event belongs to.

        That of its sender whose mention is its cause; or in which the sender asked for what is
        its cause, or said it.
        """
        cause, sender = event.cause, event.sender
        if cause is None:
            return None
        turn = self._turns.get((cause, sender))
        if turn is not None:
            return turn
        key = self._asked_by.get(cause)
        if key is not None and key[1] == sender:
            return self._turns.get(key)
        if isinstance(event.data, _HANDLING):
            return self.open(seq, event.thread, cause, sender)
        return None

    def open(
        self, seq: int, thread: ThreadId, mention: EventId, agent: AgentName
    ) -> OpenTurn | None:
        """Return the turn of an agent for a mention; None where its span is final."""
        turn = self._turns.get((mention, agent))
        if turn is not None:
            return turn
        span = turn_span_id(mention, agent)
        if int(span, 16) in self._seen:
            return None
        turn = OpenTurn(agent=agent, mention=mention, span=span, thread=thread, seq=seq)
        self._turns[mention, agent] = turn
        return turn

    def touch(self, turn: OpenTurn, at: int) -> None:
        """Note that the agent worked on it at that time."""
        turn.touch(at)
        self._begun.add((turn.mention, turn.agent))

    def handling(self, turn: OpenTurn, event: Event, at: int) -> Iterator[Span]:
        """Take what an agent said of how it handles a mention."""
        task, data = event.task, event.data
        match data:
            case MentionReceived():
                turn.queue_depth = ns(data.queue_depth)
            case HandlingStarted():
                self._note_attempt(turn, data.attempt, data.replica)
                self.touch(turn, at)
            case HandlingFailed():
                self._note_attempt(turn, data.attempt, data.replica)
                self.touch(turn, at)
                turn.note(making.error_event(data.error, at, ns(data.attempt)))
                if data.retry_in_ns is None:
                    yield from self._end(task, turn, "failed", at, error=data.error)
            case MentionDeadLettered():
                self.touch(turn, at)
                yield from self._end(task, turn, "dead_lettered", at, error=data.error)
            case HandlingEnded():
                self._note_attempt(turn, data.attempt, data.replica)
                self.touch(turn, self._clock(turn.agent, data.started_at))
                end = self._clock(turn.agent, data.ended_at)
                yield from self._end(task, turn, "ended", max(end, turn.last))
            case _:
                self.touch(turn, at)

    def _note_attempt(self, turn: OpenTurn, attempt: int, replica: str) -> None:
        turn.attempts = max(turn.attempts, ns(attempt))
        turn.replica = cut(replica, MAX_WORD_CHARS).text or turn.replica

    def note_stored(self, event: Event, data: MentionStored) -> None:
        """Note that the mentioned agents were not running."""
        for name in data.agents:
            if event.cause is not None:
                turn = self._turns.get((event.cause, AgentName(name)))
                if turn is not None:
                    turn.was_stored = True

    def _end(
        self,
        task: TaskId,
        turn: OpenTurn,
        outcome: str,
        end: int,
        *,
        error: ErrorInfo | None = None,
        state: str | None = None,
    ) -> Iterator[Span]:
        for tool in turn.tools.values():
            yield making.tool_span(task, tool, None, end, content=self._content)
        turn.error = error
        yield making.turn_span(task, turn, outcome=outcome, end=end, state=state)
        key = (turn.mention, turn.agent)
        self._turns.pop(key, None)
        self._begun.discard(key)
        self._seen.add(int(turn.span, 16))
        self.ended += 1
        for event in (*turn.said, *turn.replies):
            if self._asked_by.get(event) == key:
                del self._asked_by[event]

    # tools

    def tool(
        self,
        seq: int,
        event: Event,
        data: ToolCalled | ToolReturned,
        turn: OpenTurn | None,
        *,
        parent: SpanId,
        at: int,
    ) -> Iterator[Span]:
        """Take a call of a tool, or its end."""
        content = self._content
        tools = self._loose if turn is None else turn.tools
        called = making.open_tool(seq, event, data, parent=parent, start=at, content=content)
        key = f"{event.sender} {event.cause} {called.call_id}"
        before = tools.pop(key, None)
        if isinstance(data, ToolReturned):
            took = ns(data.duration_ns)
            if before is None:
                called.start = max(at - took, 1)
            tool = before or called
            if turn is not None:
                self.touch(turn, tool.start + took)
            yield making.tool_span(event.task, tool, data, tool.start + took, content=content)
            return
        if before is not None:
            # The same call again: the attempt before never heard of its result.
            yield making.tool_span(event.task, before, None, at, content=content)
        tools[key] = called

    # what is said

    def note_said(self, turn: OpenTurn, event: EventId, at: int, end: int) -> None:
        """Note that a turn put an event on the bus."""
        self.touch(turn, at)
        turn.last = max(turn.last, end)
        if len(turn.said) < MAX_ASKED:
            turn.said.append(event)
            self._asked_by[event] = (turn.mention, turn.agent)

    def note_reply(self, event: Event) -> None:
        """Link an answer to the open turn of another agent that asked for it."""
        data = event.data
        named = [getattr(data, name, None) for name in _REFERENCES]
        for cause in dict.fromkeys((event.cause, *named)):
            key = None if cause is None else self._asked_by.get(EventId(cause))
            turn = None if key is None else self._turns.get(key)
            if key is None or turn is None or turn.agent == event.sender:
                continue
            if len(turn.replies) < MAX_LINKS - 1 and event.id not in turn.replies[-2:]:
                turn.replies.append(event.id)
                self._asked_by.setdefault(event.id, key)

    # the end of all

    def finish(
        self, task: TaskId, end: int, opener: AgentName | None, state: str | None
    ) -> tuple[list[Span], int]:
        """End what is open.

        Args:
            task: the super-task.
            end: when what has no end of its own ended.
            opener: whose own mentions need no answer.
            state: what the spans say of the task; they end now where it is given.

        Returns:
            The spans, and how many mentions were never taken up.
        """
        spans: list[Span] = []
        waiting = 0
        for turn in sorted(self._turns.values(), key=lambda turn: (turn.seq, turn.agent)):
            if turn.has_begun:
                last = turn.last if state is None else max(turn.last, end)
                spans += self._end(task, turn, "unfinished", last, state=state)
            elif turn.agent != opener:
                waiting += 1
        for tool in self._loose.values():
            spans.append(making.tool_span(task, tool, None, end, content=self._content))
        self._loose.clear()
        return spans, waiting
