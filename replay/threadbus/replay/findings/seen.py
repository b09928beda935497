"""An event as detectors see it: with its place, and what several of them want to know of it."""

from __future__ import annotations

from typing import Final

from threadbus.replay.findings.jobs import Job
from threadbus.replay.findings.refs import Ref, said_by
from threadbus.replay.findings.requests import Request
from threadbus.replay.findings.texts import norm
from threadbus.schemas import AssignmentMade, Event, ToolCalled

_NOTHING: Final[tuple[Request, ...]] = ()


class Seen:
    """One event, when it comes up."""

    __slots__ = (
        "_content",
        "_flat",
        "_signature",
        "asks",
        "at",
        "before",
        "cause",
        "event",
        "gap",
        "is_excused",
        "is_obs",
        "job",
        "ref",
        "seq",
        "stored_at",
    )

    def __init__(self, at: int, stored_at: int, event: Event, ref: Ref) -> None:
        self.seq = ref.seq
        self.at = at
        """Nanoseconds since the epoch, by the server's clock where it is known."""
        self.stored_at = stored_at
        self.event = event
        self.ref = ref
        self.is_obs = False
        """Whether it is an observation."""
        self.cause: Ref | None = None
        """The event that it answers, if that is in the log before it."""
        self.gap = 0
        """Nanoseconds since the event before it; 0 where nothing was open then."""
        self.is_excused = False
        """Whether the task was paused, or a person was asked, before it."""
        self.before: Ref | None = None
        """The event before it."""
        self.job: Job | None = None
        """The work that it is part of, as far as it is known to have begun."""
        self.asks: tuple[Request, ...] = _NOTHING
        """What it asks for."""
        self._content: str | None = None
        self._flat: str | None = None
        self._signature: int | None = None

    @property
    def content(self) -> str:
        """What it says, with other parts than text told apart by their content."""
        content = self._content
        if content is None:
            content = self._content = said_by(self.event.data)
        return content

    @property
    def flat(self) -> str:
        """The same without what differs by accident."""
        flat = self._flat
        if flat is None:
            flat = self._flat = norm(self.content)
        return flat

    @property
    def signature(self) -> int:
        """A number that is the same for everything that says or does the same."""
        signature = self._signature
        if signature is None:
            data = self.event.data
            if isinstance(data, ToolCalled):
                signature = hash((data.TYPE, data.tool, self.content))
            elif isinstance(data, AssignmentMade):
                signature = hash((data.TYPE, data.assignee, self.flat))
            else:
                signature = hash((data.TYPE, self.flat))
            self._signature = signature
        return signature
