"""What is kept of every event, and what an event says and refers to."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.findings.texts import content_of, encoded
from threadbus.schemas import (
    DATA_TYPES,
    AgentName,
    AnyData,
    AssignmentMade,
    EventId,
    ThreadId,
    ToolCalled,
)

_ABOUT: Final = ("assignment", "proposal", "of", "replaces", "request", "answer")
_REFERS: Final[dict[type, str]] = {
    kind: name for kind in DATA_TYPES.values() for name in _ABOUT if name in kind.__struct_fields__
}


class Ref(msgspec.Struct, gc=False):
    """One event of the run."""

    id: EventId
    seq: int
    at: int
    sender: AgentName
    thread: ThreadId
    kind: str
    """Its type."""
    cause: EventId | None
    about: EventId | None
    """The event that its data refers to."""


def about_of(data: AnyData) -> EventId | None:
    """Return the event that *data* refers to."""
    name = _REFERS.get(type(data))
    if name is None:
        return None
    value = getattr(data, name)
    return None if value is None else EventId(value)


def said_by(data: AnyData) -> str:
    """Return what an event says or does; other parts than text are told apart by their content."""
    match data:
        case AssignmentMade():
            return content_of(data.parts) or data.title
        case ToolCalled():
            return encoded(data.arguments)
        case _:
            return content_of(getattr(data, "parts", ()))
