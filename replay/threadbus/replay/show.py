"""Show one run: read or follow a source, and write it in the form that was asked for."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from typing import BinaryIO, Final, TextIO

import msgspec

from threadbus.replay.closing import write_closing
from threadbus.replay.condense import MAX_KEPT
from threadbus.replay.export import end_line, head_line
from threadbus.replay.feed import FeedRenderer
from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.watch import FindingOptions, Watch
from threadbus.replay.heading import Heading
from threadbus.replay.lanes import write_lanes
from threadbus.replay.paint import Painter, painter_for
from threadbus.replay.prices import Prices
from threadbus.replay.reading import Progress, Read, Reading
from threadbus.replay.redact import Redaction, Redactor
from threadbus.replay.render import TreeRenderer
from threadbus.replay.selection import Selection, Sieve
from threadbus.replay.source import LogItem, Source
from threadbus.replay.story import Timeline
from threadbus.replay.timeline import TimelineFold
from threadbus.schemas import Recorded, TaskId, TaskOpened, export_line

_FLUSH_BYTES: Final = 1 << 16
_LINES_KEPT: Final = 1_000
"""Turns and steps that are held while lines are written, for which only names are looked up."""


class Format(StrEnum):
    """What ``--format`` takes."""

    TREE = "tree"
    """For a person."""
    TIMELINE = "timeline"
    """For a person: a lane for each agent, time from left to right."""
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
    OTLP_JSON = "otlp-json"
    """OpenTelemetry's spans, for Jaeger's upload and other viewers."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to show, and how."""

    task: TaskId
    format: Format = Format.TREE
    selection: Selection = Selection()
    follow: bool = False
    limit: int | None = None
    """Entries to read at most."""
    full: bool = False
    """Whether texts are shown in full, not only their beginning."""
    prices: Prices | None = None
    findings: FindingOptions | None = None
    """How the run is analysed; not at all where absent. ``jsonl`` is never analysed."""
    redact: Redaction | None = None
    redact_key: bytes = b""
    width: int | None = None
    """Columns; those of the terminal where absent."""
    has_color: bool = True
    """False: no colours, whatever the terminal can do."""

    def painter(self, out: TextIO) -> Painter:
        """Return what writes on *out* as it is asked for."""
        return painter_for(out, width=self.width, has_color=self.has_color)


async def show(
    source: Source, request: Request, out: TextIO, raw: BinaryIO, progress: Progress
) -> FindingKind | None:
    """Show a run.

    Args:
        source: where it is.
        request: what of it, and how.
        out: takes text: the tree, the timeline and the feed.
        raw: takes bytes, UTF-8 whatever the locale: every other form.
        progress: is told how far reading is.

    Returns:
        The gravest kind of what was found in the run; nothing where that is nothing.

    Raises:
        UnknownTaskError: the source has nothing of this task.
        UnknownFilterError: the run has no such thread, agent or kind.

    Cancellation: safe; what was written stays.
    """
    is_lines = request.format is Format.JSONL
    selection = request.selection
    reading = Reading(
        source,
        request.task,
        TimelineFold(
            prices=request.prices, most=_LINES_KEPT if is_lines else MAX_KEPT, full=request.full
        ),
        Sieve(selection),
        None if request.redact is None else Redactor(request.redact, request.redact_key),
        follow=request.follow,
        limit=request.limit,
        needs_story=not is_lines or bool(selection.thread or selection.agent),
    )
    watch = Watch(None if is_lines else request.findings)
    async with (
        aclosing(reading.items(progress)) as entries,
        aclosing(watch.over(entries, lambda read: read.item)) as items,
    ):
        match request.format:
            case Format.JSONL:
                await _show_lines(entries, reading, request, raw)
            case Format.TREE | Format.TIMELINE if request.follow:
                await _show_feed(items, reading, watch, request, out)
            case Format.TREE | Format.TIMELINE:
                await _show_picture(items, reading, watch, request, out)
            case Format.JSON:
                async for _ in items:
                    pass
                document = msgspec.json.encode(await _analysed(reading, watch))
                raw.write(msgspec.json.format(document, indent=2) + b"\n")
                raw.flush()
            case Format.OTLP_JSON:
                await _show_spans(items, request, raw)
            case _:
                await _show_form(items, reading, watch, request, raw)
    return watch.analysis.gravest


async def _analysed(reading: Reading, watch: Watch) -> Timeline:
    """Return what is asked for of the story, with what was found in it."""
    whole = reading.fold.timeline
    await watch.finish(whole, None if whole.is_imported else _now(whole))
    chosen = reading.chosen()
    wanted = reading.sieve.selection
    if chosen is whole or not (wanted.thread or wanted.agent):
        return chosen
    found = [
        one
        for one in whole.findings
        if wanted.thread in {"", one.thread} and wanted.agent in {"", one.agent}
    ]
    return msgspec.structs.replace(chosen, findings=found)


async def _show_spans(items: AsyncIterator[Read], request: Request, raw: BinaryIO) -> None:
    # The other forms need none of it.
    from threadbus.replay.tracing import RunExaminer, encode_json, trace_run

    async def entries() -> AsyncGenerator[LogItem]:
        async for read in items:
            if read.is_taken:
                yield read.item

    # Of a part, what is missing would be found missing.
    examine = RunExaminer if request.selection == Selection() else None
    spans = [span async for group in trace_run(entries(), examine=examine) for span in group]
    raw.write(encode_json(spans) + b"\n")
    raw.flush()


async def _show_lines(
    items: AsyncIterator[Read], reading: Reading, request: Request, raw: BinaryIO
) -> None:
    pending = bytearray()
    marked = 0
    async for item, _, is_taken in items:
        if is_taken:
            if reading.redacted and not marked:
                # Whoever reads the file must know that this is not what was said.
                pending += head_line([request.task], reading.redacted)
            marked += bool(reading.redacted)
            pending += export_line(item)
        if request.follow or len(pending) > _FLUSH_BYTES:
            raw.write(pending)
            raw.flush()
            pending.clear()
    if marked:
        pending += end_line(marked)
    raw.write(pending)
    raw.flush()
    reading.sieve.check(reading.fold.timeline)


async def _show_form(
    items: AsyncIterator[Read], reading: Reading, watch: Watch, request: Request, raw: BinaryIO
) -> None:
    # The other forms need none of it.
    from threadbus.replay.forms import FORMS, FormOptions

    async for _ in items:
        pass
    timeline = await _analysed(reading, watch)
    options = FormOptions(selection=request.selection, now=_now(timeline))
    pieces = FORMS[request.format](timeline, options)
    raw.writelines(piece.encode("utf-8", "backslashreplace") for piece in pieces)
    raw.flush()


async def _show_picture(
    items: AsyncIterator[Read], reading: Reading, watch: Watch, request: Request, out: TextIO
) -> None:
    painter = request.painter(out)
    opened = False
    async for item, _, _ in items:
        if not opened and isinstance(item, Recorded) and isinstance(item.event.data, TaskOpened):
            # A large log takes a while: whose it is can be said at once.
            Heading(painter, reading.fold.timeline).opening()
            painter.flush()
            opened = True
    timeline = await _analysed(reading, watch)
    now = _now(timeline)
    heading = Heading(painter, timeline, now)
    if not opened:
        heading.opening()
    heading.overview(reading.sieve.note_for_person(timeline))
    if request.format is Format.TREE:
        only_one = bool(request.selection.agent)
        TreeRenderer(painter, timeline, now, shows_asked=only_one, full=request.full).tree()
    else:
        write_lanes(painter, timeline, max(now, timeline.last_at))
    write_closing(painter, timeline, max(now, timeline.last_at))
    painter.flush()


async def _show_feed(
    items: AsyncIterator[Read], reading: Reading, watch: Watch, request: Request, out: TextIO
) -> None:
    painter = request.painter(out)
    fold = reading.fold
    feed = FeedRenderer(painter, fold.timeline)
    opened = False
    async for item, entry, is_taken in items:
        if not opened:
            Heading(painter, fold.timeline).opening()
            painter.line()
            opened = True
        if is_taken:
            feed.write(item, entry)
        painter.flush()
    reading.sieve.check(fold.timeline)
    timeline = fold.timeline
    await _analysed(reading, watch)
    now = _now(timeline)
    painter.line()
    Heading(painter, timeline, now).overview(reading.sieve.note_for_person(timeline))
    if request.format is Format.TIMELINE:
        write_lanes(painter, reading.chosen(), max(now, timeline.last_at))
    write_closing(painter, timeline, max(now, timeline.last_at))
    painter.flush()


def _now(timeline: Timeline) -> int:
    """Return the time by which what is open is so old: no later than the end of the run."""
    if timeline.closed_at is not None:
        return timeline.closed_at
    return timeline.last_at if timeline.is_imported else time.time_ns()
