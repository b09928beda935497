"""The trace of one super-task, from a source that holds its log."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from threadbus.replay.finding import Finding
from threadbus.replay.source import LogItem, closing
from threadbus.replay.story import Timeline
from threadbus.replay.timeline import TimelineFold
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.spans import SpanFold

LARGE_TRACE_SPANS: Final = 5_000
"""A trace of more spans is sent all the same, but some viewers are slow with it."""

MAX_EXAMINED_EVENTS: Final = 200_000
"""Events of a run at most for findings to be looked for: they need the whole story in memory."""

Examine: TypeAlias = Callable[[Timeline], Sequence[Finding]]
"""Says what is to be found in a run; the findings become events of the root span."""


def no_findings(_: Timeline) -> Sequence[Finding]:
    """Look for nothing."""
    return ()


async def trace_run(
    entries: AsyncIterator[LogItem],
    *,
    examine: Examine | None = None,
    content: bool = False,
    now: int | None = None,
) -> AsyncGenerator[list[Span]]:
    """Compute the spans of one run, entry by entry.

    Args:
        entries: its log, in order.
        examine: finds what went wrong; nothing is looked for when absent.
        content: whether spans carry the beginnings of what was said.
        now: nanoseconds since the epoch; what was closed long enough before is final. The time
            of the call when absent.

    Yields:
        Spans as they become final; in the end those of a run that goes on, as they are now.

    Cancellation: safe.
    """
    fold, story = SpanFold(content=content), TimelineFold()
    count = 0

    def findings() -> Sequence[Finding]:
        if examine is None or count > MAX_EXAMINED_EVENTS:
            return ()
        return examine(story.timeline)

    async with closing(entries):
        async for entry in entries:
            spans: list[Span] = []
            if fold.due(entry.stored_at):
                spans += fold.settle(findings())
            count += 1
            if examine is not None and not fold.is_settled and count <= MAX_EXAMINED_EVENTS:
                story.apply(entry)
            spans += fold.apply(entry)
            if fold.due(entry.stored_at):
                spans += fold.settle(findings())
            if spans:
                yield spans
    if not fold.is_settled:
        done = fold.due(time.time_ns() if now is None else now)
        yield fold.settle(findings()) if done else fold.preview(findings())


def spans_of(
    entries: Iterable[LogItem], *, content: bool = False, now: int | None = None
) -> list[Span]:
    """Return the spans of one run without findings; the entries may be in any order."""
    fold = SpanFold(content=content)
    spans: list[Span] = []
    for entry in sorted(entries, key=lambda entry: entry.seq):
        if fold.due(entry.stored_at):
            spans += fold.settle()
        spans += fold.apply(entry)
        if fold.due(entry.stored_at):
            spans += fold.settle()
    if not fold.is_settled:
        done = fold.due(time.time_ns() if now is None else now)
        spans += fold.settle() if done else fold.preview()
    return spans
