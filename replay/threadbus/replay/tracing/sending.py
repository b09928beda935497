"""``busreplay TASK --otlp URL``: one run to a collector."""

from __future__ import annotations

from typing import TextIO

from threadbus.replay.lookup import unknown_task
from threadbus.replay.source import Source
from threadbus.replay.tracing.collector import Collector, trace_link
from threadbus.replay.tracing.examining import RunExaminer
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.otlp import MAX_BATCH_BYTES, size_of
from threadbus.replay.tracing.run import LARGE_TRACE_SPANS, trace_run
from threadbus.schemas import TaskId


async def send_run(
    source: Source, task: TaskId, url: str, out: TextIO, *, content: bool = False
) -> int:
    """Send the trace of a run to a collector, and say where to look at it.

    Args:
        source: where the run is.
        task: which one.
        url: the collector.
        out: takes what is said to a person.
        content: whether spans carry the beginnings of what was said.

    Returns:
        How many spans were sent.

    Raises:
        UnknownTaskError: the source has nothing of this task.
        TraceError: it cannot be sent; the subclass says why.

    Cancellation: what was sent stays; sent again, it is there once.
    """
    collector = Collector(url)
    batch: list[Span] = []
    size = 0
    is_open = False
    async for spans in trace_run(source.read(task), examine=RunExaminer, content=content):
        batch += spans
        size += sum(map(size_of, spans))
        is_open = any(("bus.task.state", "open") in span.attributes for span in spans)
        if size >= MAX_BATCH_BYTES:
            await collector.send(batch)
            batch, size = [], 0
    await collector.send(batch)
    if not collector.sent:
        raise await unknown_task(source, task)
    out.write(f"{collector.sent:,} spans sent to {collector.url}\n")
    if is_open:
        out.write("the run goes on: what is open ends now, and is marked bus.task.state=open\n")
    if collector.sent > LARGE_TRACE_SPANS:
        out.write(f"more than {LARGE_TRACE_SPANS:,} spans: Jaeger's page takes a while for them\n")
    out.write(f"in Jaeger: {trace_link(url, task)}\n")
    return collector.sent
