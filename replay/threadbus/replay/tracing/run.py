"""The trace of one super-task, from a source that holds its log."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Final

from threadbus.replay.source import LogItem, closing
from threadbus.replay.tracing.examining import Bounded, Examine
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.spans import SpanFold

LARGE_TRACE_SPANS: Final = 5_000
"""A trace of more spans is sent all the same, but some viewers are slow with it."""


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
    fold, examiner = SpanFold(content=content), Bounded(examine)
    async with closing(entries):
        async for entry in entries:
            spans: list[Span] = []
            if fold.due(entry.stored_at):
                spans += fold.settle(examiner.findings())
            if not fold.is_settled:
                examiner.apply(entry)
            spans += fold.apply(entry)
            if fold.due(entry.stored_at):
                spans += fold.settle(examiner.findings())
            if spans:
                yield spans
    if not fold.is_settled:
        done = fold.due(time.time_ns() if now is None else now)
        yield fold.settle(examiner.findings()) if done else fold.preview(examiner.findings())


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
