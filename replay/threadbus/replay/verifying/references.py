"""What events say of other events: who they answer, what they settle, what they accept."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    Event,
    EventId,
    InputRequested,
    ProposalMade,
    TaskClosed,
    TaskOpened,
    ToolCalled,
    ToolReturned,
)


class Seen(msgspec.Struct, gc=False):
    """What is kept of every event."""

    seq: int
    type: str
    sender: AgentName
    at: int


_WANTED = {
    "assignment": AssignmentMade.TYPE,
    "proposal": ProposalMade.TYPE,
    "request": InputRequested.TYPE,
    "answer": AnswerSubmitted.TYPE,
}


class References:
    """Follows what refers to what."""

    def __init__(self) -> None:
        self.seen: dict[EventId, Seen] = {}
        self._assignees: dict[EventId, str] = {}
        self._calls: set[tuple[AgentName, str]] = set()

    def take(self, seq: int, event: Event) -> Iterator[tuple[bool, str, str, tuple[int, ...]]]:
        """Take the next event.

        Yields:
            Whether it is a violation, the check, a sentence, and the entries that show it.
        """
        data = event.data
        for field, wanted in _WANTED.items():
            value = getattr(data, field, None)
            if isinstance(value, str):
                yield from self._refers(field, EventId(value), wanted, data)
        if event.cause is not None and not isinstance(data, TaskOpened):
            cause = self.seen.get(event.cause)
            if cause is None:
                text = f"answers event {event.cause}, which is not in the log before it"
                yield False, "missing", text, ()
        if isinstance(data, AssignmentFinished | AssignmentFailed):
            assignee = self._assignees.get(EventId(data.assignment), event.sender)
            if assignee != event.sender:
                made = self.seen[EventId(data.assignment)]
                text = f"settles an assignment that {assignee} has, not {event.sender}"
                yield True, "reference", text, (made.seq,)
        if isinstance(data, AssignmentMade):
            self._assignees[event.id] = data.assignee
        if isinstance(data, ToolCalled):
            self._calls.add((event.sender, data.call_id))
        elif isinstance(data, ToolReturned) and (event.sender, data.call_id) not in self._calls:
            text = f"a tool returned to call {data.call_id[:40]!r}, which is not in the log"
            yield False, "missing", text, ()
        self.seen[event.id] = Seen(seq, event.type, event.sender, event.at)

    def _refers(
        self, field: str, value: EventId, wanted: str, data: object
    ) -> Iterator[tuple[bool, str, str, tuple[int, ...]]]:
        found = self.seen.get(value)
        if found is None:
            is_accepted = isinstance(data, TaskClosed)
            text = f"refers to the {field} {value}, which is not in the log before it"
            yield is_accepted, "missing", text, ()
        elif found.type != wanted:
            text = f"refers to {value} as its {field}, which is a {found.type}"
            yield True, "reference", text, (found.seq,)
