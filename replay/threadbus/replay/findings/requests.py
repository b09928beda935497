"""What was asked of whom and is not settled: assignments, and messages to one agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.texts import likeness, shingles
from threadbus.replay.steps import ns
from threadbus.schemas import (
    AgentName,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    HandlingFailed,
    Lane,
    MentionDeadLettered,
    MessagePosted,
    TaskOpened,
    ThreadId,
)

if TYPE_CHECKING:
    from threadbus.replay.findings.seen import Seen

MAX_REQUESTS: Final = 50_000
"""Requests that are remembered; the oldest are forgotten first."""

MAX_OPEN_OF_ONE: Final = 50
"""Open requests of one agent among which the same work is looked for."""

_ALIKE: Final = 0.8
_ENDS: Final = frozenset({AssignmentCancelled, AssignmentFailed, AssignmentFinished})


class Request(msgspec.Struct, kw_only=True, gc=False):
    """One piece of work, or one question."""

    id: EventId
    ref: Ref
    asker: AgentName
    to: AgentName
    thread: ThreadId
    content: str
    """The beginning of what is asked."""
    flat: str
    """All of it that is compared."""
    is_assignment: bool
    is_async: bool
    awaited: bool
    deadline_at: int | None = None
    is_quick: bool = False
    """Whether it passes what else the agent does."""
    last_sign: Ref | None = None
    """The last event by which the agent that was asked showed that it has it in hand."""
    is_dead: bool = False
    """Whether the agent failed, or gave it up."""
    settled: Ref | None = None
    """What ended it: a result, a reply, a failure, a cancel."""
    is_cancelled: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it waits."""
        return self.settled is None


class Requests:
    """Every request that is remembered."""

    def __init__(self) -> None:
        self.all: dict[EventId, Request] = {}
        self.open = 0
        """How many wait."""
        self._of: dict[AgentName, dict[EventId, Request]] = {}

    def of(self, asker: AgentName) -> Iterator[Request]:
        """Return the last requests of *asker*, open or cancelled, newest first."""
        return reversed(list(self._of.get(asker, {}).values()))

    def take(self, seen: Seen) -> Request | None:
        """Take the next event; return what it asks for."""
        event, ref = seen.event, seen.ref
        data = event.data
        kind = type(data)
        if kind in _ENDS:
            request = self.all.get(ref.about) if ref.about is not None else None
            dead, cancelled = kind is AssignmentFailed, kind is AssignmentCancelled
            self._settle(request, ref, dead=dead, cancelled=cancelled)
        elif event.cause is not None:
            request = self.all.get(event.cause)
            if request is not None and event.sender == request.to:
                self._signs(request, event, ref)
        if isinstance(data, AssignmentMade):
            return self._asked(
                seen,
                AgentName(data.assignee),
                is_async=data.mode is AssignmentMode.ASYNC,
                deadline_at=None if data.deadline_at is None else ns(data.deadline_at),
            )
        if not isinstance(data, TaskOpened | MessagePosted):
            return None
        to = event.addressees
        if len(to) != 1:
            return None
        cause = seen.cause
        if isinstance(data, MessagePosted) and cause is not None and cause.sender == to[0]:
            # A reply asks for nothing, unless it says so.
            return self._asked(seen, to[0], awaited=True) if data.awaited else None
        return self._asked(seen, to[0], awaited=data.awaited)

    def same(self, request: Request) -> Request | None:
        """Return the newest request before *request*, of the same asker, that asks for the same."""
        flat = request.flat
        if not flat:
            return None
        pieces = None
        for other in self.of(request.asker):
            if other is request or not (other.is_open or other.is_cancelled):
                continue
            if other.flat == flat:
                return other
            if len(flat) < 20 or not 0.7 < len(other.flat) / len(flat) < 1.4:
                continue
            pieces = pieces or shingles(flat)
            if likeness(pieces, shingles(other.flat)) >= _ALIKE:
                return other
        return None

    def _asked(
        self,
        seen: Seen,
        to: AgentName,
        *,
        is_async: bool = False,
        awaited: bool = False,
        deadline_at: int | None = None,
    ) -> Request:
        event, ref = seen.event, seen.ref
        is_assignment = isinstance(event.data, AssignmentMade)
        request = Request(
            id=event.id,
            ref=ref,
            asker=event.sender,
            to=to,
            thread=event.thread,
            content=seen.content[:200],
            flat=seen.flat,
            is_assignment=is_assignment,
            is_async=is_async,
            awaited=awaited or (is_assignment and not is_async),
            deadline_at=deadline_at,
            is_quick=isinstance(event.data, MessagePosted) and event.data.lane is Lane.QUICK,
        )
        self.open += 1
        self.all[request.id] = request
        mine = self._of.setdefault(request.asker, {})
        mine[request.id] = request
        if len(mine) > MAX_OPEN_OF_ONE:
            del mine[next(iter(mine))]
        for oldest in trim(self.all, MAX_REQUESTS):
            self._of[oldest.asker].pop(oldest.id, None)
            self.open -= oldest.is_open
        return request

    def _settle(
        self, request: Request | None, ref: Ref, *, dead: bool = False, cancelled: bool = False
    ) -> None:
        if request is None:
            return
        if ref.sender == request.to:
            request.last_sign = ref
        if request.settled is None:
            request.settled, request.is_cancelled = ref, cancelled
            request.is_dead = dead
            self.open -= 1
            if not cancelled:
                self._of[request.asker].pop(request.id, None)

    def _signs(self, request: Request, event: Event, ref: Ref) -> None:
        data = event.data
        if isinstance(data, HandlingFailed):
            request.is_dead = data.retry_in_ns is None
            return
        if isinstance(data, MentionDeadLettered):
            self._settle(request, ref, dead=True)
            return
        request.last_sign = ref
        is_reply = (
            not request.is_assignment
            and event.event_class is not EventClass.OBS
            and isinstance(data, MessagePosted)
            and not data.awaited
        )
        if is_reply or (isinstance(data, HandlingEnded) and not request.is_assignment):
            self._settle(request, ref)
