"""Where the code that runs now belongs: in which turn, for log lines and for traces.

Context variables, so that whatever a handler starts (tasks, plain functions in threads, tools,
calls of a model) knows it without being told.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from structlog.contextvars import bind_contextvars, reset_contextvars

from threadbus.schemas import AgentName, Event, traceparent, turn_span_id

_current: Final[ContextVar[str]] = ContextVar("threadbus_traceparent", default="")


def current_traceparent() -> str:
    """Return the W3C trace context of the turn that this code runs in; empty outside of one."""
    return _current.get()


def context_of(event: Event, agent: AgentName) -> str:
    """Return the W3C trace context of the turn in which *agent* handles *event*."""
    return traceparent(event.task, turn_span_id(event.id, agent))


class in_turn:  # noqa: N801 - used like a function
    """Let the log lines and the trace context of what runs inside name the turn.

    A class, since a generator would cost each mention more.
    """

    __slots__ = ("_bound", "_facts", "_outer", "_trace")

    def __init__(self, event: Event, agent: AgentName) -> None:
        span = turn_span_id(event.id, agent)
        self._trace = traceparent(event.task, span)
        # The trace of a super-task has its id.
        self._facts = {
            "trace": event.task,
            "span": span,
            "task": event.task,
            "thread": event.thread,
            "agent": agent,
        }

    def __enter__(self) -> None:
        self._outer = _current.set(self._trace)
        self._bound = bind_contextvars(**self._facts)

    def __exit__(self, *_: object) -> None:
        reset_contextvars(**self._bound)
        _current.reset(self._outer)
