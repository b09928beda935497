"""Show one run: read or follow a source, and write it in the form that was asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import BinaryIO, Final, TextIO

import msgspec

from threadbus.replay.closing import write_closing
from threadbus.replay.feed import FeedRenderer
from threadbus.replay.lookup import unknown_task
from threadbus.replay.paint import painter_for
from threadbus.replay.render import TreeRenderer
from threadbus.replay.selection import Selection
from threadbus.replay.source import LogItem, Source, closing
from threadbus.replay.story import Timeline
from threadbus.replay.timeline import TimelineFold
from threadbus.schemas import Recorded, TaskId, TaskOpened, export_line

QUIET_S: Final = 0.3
"""Seconds without an entry, after the close, that end following when no turn runs any more."""

GRACE_S: Final = 1.0
"""The same while a turn runs: its end may still be told."""

LONGEST_REST_S: Final = 10.0
"""Seconds after the close that following goes on at most."""

_MAX_HELD: Final = 1_000

_FLUSH_BYTES: Final = 1 << 16

Progress = Callable[[int], None]
"""Called now and then with the number of entries read so far."""


class Format(StrEnum):
    """What ``--format`` takes."""

    TREE = "tree"
    """For a person."""
    JSONL = "jsonl"
    """The log itself, verbatim; what ``--file`` reads."""
    JSON = "json"
    """One document: the story of the run."""
    HTML = "html"
    """One page to look around in, in a browser."""
    MARKDOWN = "markdown"
    """A report for an issue tracker."""
    MERMAID = "mermaid"
    """A sequence diagram."""
    DOT = "dot"
    """What caused what, as a graph."""
    CHROME_TRACE = "chrome-trace"
    """Lanes of time, for a viewer of trace events."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to show."""

    task: TaskId
    format: Format = Format.TREE
    selection: Selection = Selection()
    follow: bool = False
    limit: int | None = None
    """Entries to read at most."""


class _Reading:
    """Feeds a fold from a source, with the bounds that a request sets."""

    def __init__(self, source: Source, request: Request) -> None:
        self.fold = TimelineFold()
        self._source = source
        self._request = request

    async def items(self, progress: Progress) -> AsyncGenerator[LogItem]:
        """Read entry by entry, to the end, the close of the task that is followed, or the limit.

        Whoever iterates gives each entry to the fold before the next is asked for.
        """
        request = self._request
        if request.follow:
            await self._check_exists()
            entries = _until_over(self._source.follow(request.task), self.fold)
        else:
            entries = _from_first_event(self._source.read(request.task))
        count = 0
        async with closing(entries):
            async for item in entries:
                if request.limit is not None and count >= request.limit:
                    self.fold.timeline.is_complete = False
                    return
                count += 1
                if count % 1000 == 0:
                    progress(count)
                yield item
                if request.follow and count == request.limit:
                    # Whether there would be more, only waiting could tell.
                    return
        if not count:
            raise await unknown_task(self._source, request.task)

    async def _check_exists(self) -> None:
        """Following a task that does not exist would wait for ever."""
        async with closing(_from_first_event(self._source.read(self._request.task))) as items:
            async for _ in items:
                return
        raise await unknown_task(self._source, self._request.task)


async def _from_first_event(entries: AsyncIterator[LogItem]) -> AsyncGenerator[LogItem]:
    """Pass entries on if there is an event among them: reports alone are no run."""
    held: list[LogItem] | None = []
    async with closing(entries):
        async for item in entries:
            if held is not None:
                held.append(item)
                if not isinstance(item, Recorded) and len(held) < _MAX_HELD:
                    continue
                for one in held:
                    yield one
                held = None
            else:
                yield item


async def _until_over(
    entries: AsyncIterator[LogItem], fold: TimelineFold
) -> AsyncGenerator[LogItem]:
    """Pass entries on until the task is closed and nothing more comes of its turns."""
    clock = asyncio.get_running_loop().time
    last: float | None = None
    async with closing(entries):
        while True:
            deadline = None
            if fold.timeline.closed_at is not None:
                last = last or clock() + LONGEST_REST_S
                deadline = min(last, clock() + (GRACE_S if fold.running else QUIET_S))
            try:
                async with asyncio.timeout_at(deadline):
                    item = await anext(entries)
            except (TimeoutError, StopAsyncIteration):
                return
            yield item


async def show(
    source: Source, request: Request, out: TextIO, raw: BinaryIO, progress: Progress
) -> None:
    """Show a run.

    Args:
        source: where it is.
        request: what of it, and how.
        out: takes text: the tree and the feed.
        raw: takes bytes, UTF-8 whatever the locale: every form but the tree.
        progress: is told how far reading is.

    Raises:
        UnknownTaskError: the source has nothing of this task.
        UnknownFilterError: the run has no such thread or agent.

    Cancellation: safe; what was written stays.
    """
    reading = _Reading(source, request)
    async with aclosing(reading.items(progress)) as items:
        match request.format:
            case Format.JSONL:
                await _show_lines(items, reading.fold, request, raw)
            case Format.JSON:
                async for item in items:
                    reading.fold.apply(item)
                chosen = request.selection.of(reading.fold.timeline)
                raw.write(msgspec.json.format(msgspec.json.encode(chosen), indent=2) + b"\n")
                raw.flush()
            case Format.TREE if request.follow:
                await _show_feed(items, reading.fold, request, out)
            case Format.TREE:
                await _show_tree(items, reading.fold, request, out)
            case _:
                await _show_form(items, reading.fold, request, raw)


async def _show_lines(
    items: AsyncIterator[LogItem], fold: TimelineFold, request: Request, raw: BinaryIO
) -> None:
    pending = bytearray()
    needs_fold = bool(request.follow or request.selection.thread or request.selection.agent)
    async for item in items:
        if needs_fold:
            fold.apply(item)
        if request.selection.takes(item):
            pending += export_line(item)
        if request.follow or len(pending) > _FLUSH_BYTES:
            raw.write(pending)
            raw.flush()
            pending.clear()
    raw.write(pending)
    raw.flush()
    if needs_fold:
        request.selection.check(fold.timeline)


async def _show_form(
    items: AsyncIterator[LogItem], fold: TimelineFold, request: Request, raw: BinaryIO
) -> None:
    # The other forms need none of it.
    from threadbus.replay.forms import FORMS, FormOptions

    async for item in items:
        fold.apply(item)
    timeline = request.selection.of(fold.timeline)
    options = FormOptions(selection=request.selection, now=_now(timeline))
    pieces = FORMS[request.format](timeline, options)
    raw.writelines(piece.encode("utf-8", "backslashreplace") for piece in pieces)
    raw.flush()


async def _show_tree(
    items: AsyncIterator[LogItem], fold: TimelineFold, request: Request, out: TextIO
) -> None:
    painter = painter_for(out)
    opened = False
    async for item in items:
        fold.apply(item)
        if not opened and isinstance(item, Recorded) and isinstance(item.event.data, TaskOpened):
            # A large log takes a while: whose it is can be said at once.
            TreeRenderer(painter, fold.timeline).opening()
            painter.flush()
            opened = True
    timeline = request.selection.of(fold.timeline)
    now = _now(timeline)
    only_one = bool(request.selection.agent)
    renderer = TreeRenderer(painter, timeline, now, shows_asked=only_one)
    if not opened:
        renderer.opening()
    renderer.overview()
    renderer.tree()
    write_closing(painter, timeline, max(now, timeline.last_at))
    painter.flush()


async def _show_feed(
    items: AsyncIterator[LogItem], fold: TimelineFold, request: Request, out: TextIO
) -> None:
    painter = painter_for(out)
    feed = FeedRenderer(painter, fold.timeline)
    opened = False
    async for item in items:
        entry = fold.apply(item)
        if not opened:
            TreeRenderer(painter, fold.timeline).opening()
            painter.line()
            opened = True
        if request.selection.takes(item):
            feed.write(item, entry)
        painter.flush()
    timeline = fold.timeline
    now = _now(timeline)
    painter.line()
    TreeRenderer(painter, timeline, now).overview()
    write_closing(painter, timeline, max(now, timeline.last_at))
    painter.flush()


def _now(timeline: Timeline) -> int:
    """Return the time by which what is open is so old: no later than the end of the run."""
    if timeline.closed_at is not None:
        return timeline.closed_at
    return timeline.last_at if timeline.is_imported else time.time_ns()
