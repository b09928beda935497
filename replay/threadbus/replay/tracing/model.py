"""A span as plain data: what OpenTelemetry calls one, without its library."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from threadbus.schemas import EventId, SpanId, TaskId, span_id

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = tuple[tuple[str, Value], ...]
"""Names with values, sorted by name, so that equal spans are equal bytes."""


class SpanKind(IntEnum):
    """The numbers are those of the protocol."""

    INTERNAL = 1
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that happened within a span."""

    name: str
    at: int
    """Nanoseconds since the epoch."""
    attributes: Attributes = ()


class SpanLink(msgspec.Struct, frozen=True):
    """Another span that this one has to do with."""

    trace: str
    span: SpanId
    attributes: Attributes = ()


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span of the trace of a super-task."""

    trace: TaskId
    id: SpanId
    parent: SpanId | None
    """Absent for the root."""
    service: str
    """Whose it is: an agent, or ``threadbus`` for the super-task and its threads."""
    name: str
    kind: SpanKind
    start: int
    """Nanoseconds since the epoch."""
    end: int
    attributes: Attributes = ()
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str | None = None
    """What went wrong, where something did: the status is then an error."""


def attributes(values: dict[str, Value | None]) -> Attributes:
    """Return attributes in their order; what is absent or empty is left out."""
    return tuple(
        [
            (name, value)
            for name, value in sorted(values.items())
            if value is not None and value != ""
        ]
    )


_TRACEPARENT: Final = re.compile(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII
)


def link_beyond(traceparent: str, why: Attributes) -> SpanLink | None:
    """Return a link to the span that a W3C ``traceparent`` names; None where it is none."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return None if found is None else SpanLink(found[1], SpanId(found[2]), why)


def link_to(task: TaskId, event: EventId, why: Attributes) -> SpanLink:
    """Return a link to the span of an event of the same super-task."""
    return SpanLink(task, span_id(event), why)
