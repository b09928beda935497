"""The log of one super-task in, its spans out: pure, incremental, the same whoever computes them.

A span is given out once, when it is *final*: when nothing that the log can still say changes it.

- What was put on the bus (messages, assignments, votes, control events): at once.
- A call of a model: at once. A call of a tool: when it returned, or with its turn.
- A turn: at ``handling.ended``, at a failure that is not tried again, or when it is given up.
- A thread: when it is closed.
- The super-task: when it is closed and no turn that has begun is open, or :data:`SETTLE_NS` after
  the close by the server's clock. Then what is still open ends as well.

All of it follows from the entries and their times of storage, so a live exporter and a replay
give out the same spans, however often either of them was stopped in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from threadbus.replay.finding import Finding
from threadbus.replay.steps import cut, cut_parts, ns
from threadbus.replay.text import LAST_NS
from threadbus.replay.tracing import making
from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.model import Span, Value
from threadbus.replay.tracing.open import OpenThread, OpenTurn
from threadbus.replay.tracing.turns import OpenTurns
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    EventClass,
    MentionDeadLettered,
    MentionStored,
    ModelCalled,
    OpaqueData,
    Recorded,
    Rejected,
    SpanId,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    ToolCalled,
    ToolReturned,
    thread_span_id,
    turn_span_id,
)

SETTLE_NS: Final = 10 * 1_000_000_000
"""How long after the close of a super-task its last turns may end and still count."""

CLOCKS_DIFFER_NS: Final = 1_000_000_000
"""Clocks that are further apart than this are corrected; nearer ones are taken as they are."""


class SpanFold:
    """Computes the spans of one super-task; holds only what is open and which ids were seen.

    Args:
        content: whether spans carry the beginnings of what was said and answered. Off by default:
            it may be private.
    """

    def __init__(self, *, content: bool = False) -> None:
        self._content = content
        self.task: TaskId | None = None
        self.last_seq = 0
        self.closed_at: int | None = None
        """When it was closed, by the server's clock."""
        self.is_settled = False
        self._seen: set[int] = set()
        """The low halves of all ids of events, and of the spans that are final."""
        self._turns = OpenTurns(self._seen, self._clock, content=content)
        self._threads: dict[ThreadId, OpenThread] = {}
        self._ahead: dict[AgentName, int] = {}
        self._first_at = 0
        self._last_at = 0
        self._last_end = 0
        self._title = ""
        self._opener: AgentName | None = None
        self._traceparent = ""
        """The trace in which a gateway was called that opened it."""
        self._status = ""
        self._summary = ""

    @property
    def weight(self) -> int:
        """How many ids are held: what the memory that this takes grows with."""
        return len(self._seen) + len(self._turns)

    # in

    def apply(self, entry: Recorded | Rejected) -> list[Span]:
        """Take the next entry of the log, and return the spans that are final by it.

        Before it, :meth:`due` says whether the time of the entry settles the super-task.
        """
        self.last_seq = max(self.last_seq, entry.seq)
        if isinstance(entry, Rejected):
            return []
        event = entry.event
        if self.task is None:
            self.task = event.task
        if event.task != self.task or not self._is_new(event.id[16:]):
            return []
        stored_at = ns(entry.stored_at)
        if stored_at:
            ahead = stored_at - ns(event.at)
            self._ahead[event.sender] = min(self._ahead.get(event.sender, ahead), ahead)
        at = self._clock(event.sender, event.at)
        self._first_at = min(self._first_at or at, at)
        self._last_at = max(self._last_at, stored_at or at)
        spans = list(self._take(entry.seq, event, at, max(stored_at or at, at)))
        self._last_end = max(self._last_end, *(span.end for span in spans), 0)
        return spans

    def _is_new(self, low: str) -> bool:
        number = int(low, 16)
        if number in self._seen:
            return False
        self._seen.add(number)
        return True

    def _clock(self, sender: AgentName, at: int) -> int:
        """Return a time of an agent's clock, by the server's where the two are far apart."""
        ahead = self._ahead.get(sender, 0)
        shifted = ns(at) + ahead if abs(ahead) > CLOCKS_DIFFER_NS else ns(at)
        return min(max(shifted, 1), LAST_NS)

    def _take(self, seq: int, event: Event, at: int, stored_at: int) -> Iterator[Span]:
        data = event.data
        if event.thread != MAIN_THREAD and not isinstance(data, ThreadOpened):
            self._find_thread(event.thread, at)
        turn = self._turns.find(seq, event)
        parent = thread_span_id(event.task, event.thread)
        if turn is not None:
            parent = turn.span
        elif event.cause is not None:
            late = turn_span_id(event.cause, event.sender)
            if int(late, 16) in self._seen:
                parent = late
        match data:
            case ModelCalled():
                start = self._clock(event.sender, data.started_at)
                if turn is not None:
                    self._turns.touch(turn, start)
                    turn.has_called = True
                    turn.input_tokens += data.input_tokens
                    turn.output_tokens += data.output_tokens
                    turn.last = max(turn.last, start + ns(data.duration_ns))
                yield making.model_span(
                    seq, event, data, parent=parent, start=start, content=self._content
                )
            case ToolCalled() | ToolReturned():
                if turn is not None:
                    self._turns.touch(turn, at)
                yield from self._turns.tool(seq, event, data, turn, parent=parent, at=at)
            case _ if event.event_class is EventClass.OBS and not isinstance(data, OpaqueData):
                if isinstance(data, MentionDeadLettered):
                    yield self._send(seq, event, parent, at, stored_at)
                if isinstance(data, MentionStored):
                    self._turns.note_stored(event, data)
                elif turn is not None:
                    yield from self._turns.handling(turn, event, at)
            case _:
                yield from self._said(seq, event, turn, parent, at, stored_at)

    # what was said

    def _said(
        self,
        seq: int,
        event: Event,
        turn: OpenTurn | None,
        parent: SpanId,
        at: int,
        stored_at: int,
    ) -> Iterator[Span]:
        data = event.data
        span = self._send(seq, event, parent, at, stored_at)
        yield span
        if turn is not None:
            self._turns.note_said(turn, event.id, at, span.end)
        self._turns.note_reply(event)
        match data:
            case TaskOpened() if self._opener is None:
                self._opener, self._title = event.sender, cut(data.title).text
                self._traceparent = data.labels.get("traceparent", "")
            case TaskClosed() if self.closed_at is None:
                self.closed_at = stored_at
                self._status, self._summary = data.outcome.value, cut(data.summary).text
            case ThreadOpened() if event.thread != MAIN_THREAD:
                thread = self._find_thread(event.thread, at)
                if thread is not None:
                    thread.title, thread.parent = cut(data.title).text, ThreadId(data.parent)
                    thread.opened_in = None if turn is None else turn.span
            case ThreadClosed() if event.thread != MAIN_THREAD:
                yield from self._end_thread(event.thread, stored_at, data.outcome.value)
            case _:
                pass
        for name in event.mentions:
            woken = self._turns.open(seq, event.thread, event.id, name)
            if woken is not None:
                woken.asked_at, woken.woken_by = stored_at, event.sender
                if self._content:
                    woken.asked = cut_parts(getattr(data, "parts", ())).text

    def _send(self, seq: int, event: Event, parent: SpanId, at: int, stored_at: int) -> Span:
        return making.send_span(
            seq, event, parent=parent, start=at, end=stored_at, content=self._content
        )

    # threads and the whole

    def _find_thread(self, thread: ThreadId, at: int) -> OpenThread | None:
        found = self._threads.get(thread)
        if found is None and int(thread_span_id(self._known_task, thread), 16) not in self._seen:
            found = self._threads[thread] = OpenThread(thread=thread, start=at)
        return found

    def _end_thread(
        self, thread: ThreadId, end: int, outcome: str, state: str | None = None
    ) -> Iterator[Span]:
        found = self._threads.pop(thread, None)
        if found is not None:
            self._seen.add(int(thread_span_id(self._known_task, thread), 16))
            yield making.thread_span(self._known_task, found, end=end, outcome=outcome, state=state)

    @property
    def _known_task(self) -> TaskId:
        if self.task is None:
            raise RuntimeError("no event was applied")
        return self.task

    def due(self, now: int) -> bool:
        """Whether the super-task is to be settled, at a time of the server's clock."""
        return (
            self.closed_at is not None
            and not self.is_settled
            and (not self._turns.any_begun or now > self.closed_at + SETTLE_NS)
        )

    def settle(self, findings: Sequence[Finding] = ()) -> list[Span]:
        """Return the last spans: what is open ends, and the root is final."""
        self.is_settled = True
        return self._finish(findings, state=None)

    def preview(self, findings: Sequence[Finding] = ()) -> list[Span]:
        """Return the spans of what is open as if it ended now; each says that it has not.

        The fold is of no use afterwards.
        """
        return self._finish(findings, state="open")

    def _finish(self, findings: Sequence[Finding], state: str | None) -> list[Span]:
        if self.task is None:
            return []
        end = self._last_at if self.closed_at is None else self.closed_at
        spans, unanswered = self._turns.finish(self.task, end, self._opener, state)
        for thread in list(self._threads):
            spans += self._end_thread(thread, end, "", state)
        last_end = max(end, self._last_end, *(span.end for span in spans), 0)
        values: dict[str, Value | None] = {
            sc.TASK_TITLE: self._title,
            sc.TASK_STATUS: self._status or TaskStatus.WORKING.value,
            sc.TASK_STATE: state or "closed",
            sc.OPENED_BY: self._opener,
            sc.TURNS: self._turns.ended,
            sc.UNANSWERED: unanswered or None,
        }
        error = None
        if self._status == TaskStatus.FAILED.value:
            error = self._summary or self._status
        spans.append(
            making.root_span(
                self.task,
                start=self._first_at,
                end=last_end,
                values=values,
                findings=findings,
                traceparent=self._traceparent,
                error=error,
            )
        )
        return spans
