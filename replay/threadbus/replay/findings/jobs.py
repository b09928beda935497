"""Who works on what: one job for each mention that an agent has begun to handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from threadbus.replay.findings.refs import Ref
from threadbus.replay.steps import ns
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentAccepted,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    AssignmentProgressed,
    ContextUsed,
    CritiqueGiven,
    Event,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MessagePosted,
    ModelCalled,
    ToolCalled,
    ToolReturned,
    VoteCast,
)

MAX_JOBS: Final = 20_000
"""Jobs under way at one time that are told apart."""

_SIGNS: Final = (
    # An agent that records nothing of its own shows by these that it has begun.
    AssignmentAccepted,
    AssignmentProgressed,
    ContextUsed,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    ModelCalled,
    ToolCalled,
    ToolReturned,
)
_NO_ENDS: Final = frozenset({"assignment.accepted", "assignment.progressed", "critique.given"})
_MAX_OPEN_TOOLS: Final = 256
_MAX_WAITS: Final = 256
_UPWARDS: Final = 8


class Job(msgspec.Struct, kw_only=True, gc=False):
    """What an agent makes of one mention."""

    mention: EventId
    agent: AgentName
    began_at: int
    last: Ref
    """The last sign of it."""
    before: Ref
    """The sign before that."""
    open_tools: dict[str, Ref] = {}
    """Calls that have not returned, by call id."""
    tools_ok: int = 0
    """Calls that brought a result, here or in work that was asked for from here."""
    tool_error: Ref | None = None
    """The last call that failed, unless another one has succeeded since."""
    error_tool: str = ""
    has_replied: bool = False
    waits: set[EventId] = set()
    """What it asked for and follows the log for."""
    quiet_ns: int = 0
    """How long the agent had been silent before the last event, less what that event tells of."""
    had_child: bool = False
    """Whether a tool ran, or an answer was awaited, during that silence."""


class Jobs:
    """The jobs under way."""

    def __init__(self) -> None:
        self.open: dict[tuple[EventId, AgentName], Job] = {}
        self.working = 0
        """How many of them have brought no reply yet."""
        self.worked: dict[AgentName, list[int]] = {}
        """How long the last jobs of each agent took, in nanoseconds."""
        self._waiters: dict[EventId, Job] = {}

    def clear(self) -> None:
        """Forget all of them: whoever works from here on begins anew."""
        self.open.clear()
        self.working = 0
        self._waiters.clear()

    def get(self, mention: EventId | None, agent: AgentName) -> Job | None:
        """Return a job by its mention and agent."""
        return None if mention is None else self.open.get((mention, agent))

    def take(self, event: Event, ref: Ref, known: Mapping[EventId, Ref]) -> Job | None:
        """Take the next event; return the job that it is part of."""
        if self._waiters:
            self._settle(event, ref)
        cause = event.cause
        if cause is None:
            return None
        data = event.data
        key = (cause, event.sender)
        job = self.open.get(key)
        if job is None:
            if not isinstance(data, _SIGNS):
                return None
            job = Job(mention=cause, agent=event.sender, began_at=ref.at, last=ref, before=ref)
            self.open[key] = job
            self.working += 1
            if len(self.open) > MAX_JOBS:
                self._drop(next(iter(self.open)))
        else:
            job.quiet_ns = ref.at - job.last.at
            job.had_child = bool(job.open_tools or job.waits)
        job.before, job.last = job.last, ref
        match data:
            case ToolCalled():
                if len(job.open_tools) < _MAX_OPEN_TOOLS:
                    job.open_tools[data.call_id] = ref
            case ToolReturned():
                called = job.open_tools.pop(data.call_id, None)
                if called is not None:
                    ref.about = called.id
                if data.error is not None:
                    job.tool_error, job.error_tool = ref, data.tool
                else:
                    job.tool_error = None
                    self._credit(job, known)
                job.quiet_ns -= ns(data.duration_ns)
            case ModelCalled():
                job.quiet_ns -= ns(data.duration_ns)
            case MessagePosted(awaited=True) if event.addressees:
                self._wait(job, event.id)
            case AssignmentMade() if data.mode is AssignmentMode.SYNC:
                self._wait(job, event.id)
            case HandlingEnded():
                took = self.worked.setdefault(event.sender, [])
                took.append(max(ns(data.ended_at) - ns(data.started_at), 0))
                del took[:-64]
                self._drop(key)
            case HandlingFailed() | MentionDeadLettered():
                self._drop(key)
            case (
                AnswerSubmitted()
                | AssignmentFailed()
                | AssignmentFinished()
                | CritiqueGiven()
                | MessagePosted()
                | VoteCast()
            ):
                self.working -= not job.has_replied
                job.has_replied = True
            case _:
                pass
        return job

    def _settle(self, event: Event, ref: Ref) -> None:
        """Note that what a job waited for has come."""
        for answered in (ref.about, event.cause):
            if answered is None:
                continue
            job = self._waiters.get(answered)
            if job is None or event.sender == job.agent:
                continue
            data = event.data
            is_reply = isinstance(data, MentionDeadLettered) or (
                isinstance(data, MessagePosted) and not data.awaited
            )
            if is_reply or (answered == ref.about and event.type not in _NO_ENDS):
                job.waits.discard(answered)
                del self._waiters[answered]
                job.last = ref

    def _wait(self, job: Job, asked: EventId) -> None:
        if len(job.waits) < _MAX_WAITS:
            job.waits.add(asked)
            self._waiters[asked] = job

    def _drop(self, key: tuple[EventId, AgentName]) -> None:
        job = self.open.pop(key, None)
        if job is not None:
            self.working -= not job.has_replied
            for asked in job.waits:
                self._waiters.pop(asked, None)

    def _credit(self, job: Job, known: Mapping[EventId, Ref]) -> None:
        """Count a result for the job, and for those that asked for it."""
        above: Job | None = job
        for _ in range(_UPWARDS):
            if above is None:
                return
            above.tools_ok += 1
            asked = known.get(above.mention)
            if asked is None or asked.cause is None:
                return
            above = self.open.get((asked.cause, asked.sender))
