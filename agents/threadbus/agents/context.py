"""Where the code that runs now belongs: in which turn, for log lines and for traces.

Context variables, so that whatever a handler starts (tasks, plain functions in threads, tools,
calls of a model) knows it without being told.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from structlog.contextvars import bound_contextvars

from threadbus.schemas import AgentName, Event, traceparent, turn_span_id

_current: Final[ContextVar[str]] = ContextVar("threadbus_traceparent", default="")


def current_traceparent() -> str:
    """Return the W3C trace context of the turn that this code runs in; empty outside of one."""
    return _current.get()


def context_of(event: Event, agent: AgentName) -> str:
    """Return the W3C trace context of the turn in which *agent* handles *event*."""
    return traceparent(event.task, turn_span_id(event.id, agent))


@contextmanager
def in_turn(event: Event, agent: AgentName) -> Generator[None]:
    """Let the log lines and the trace context of what runs inside name the turn."""
    span = turn_span_id(event.id, agent)
    token = _current.set(context_of(event, agent))
    try:
        # The trace of a super-task has its id.
        with bound_contextvars(
            trace=event.task, span=span, task=event.task, thread=event.thread, agent=agent
        ):
            yield
    finally:
        _current.reset(token)
