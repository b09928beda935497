"""Tracing from inside a process: an agent that exports its own turns while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadbus.bus import SteadyLog
from threadbus.replay.tracing.collector import Collector
from threadbus.replay.tracing.examining import Examine, RunExaminer
from threadbus.replay.tracing.live import LiveExporter, patient
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.partitions import Exporters, open_exporters
from threadbus.schemas import AgentName, parse_agent_name

if TYPE_CHECKING:
    from threadbus.bus import Bus, LogConsumer

_DRAIN: Final = timedelta(seconds=10)
_log: Final = SteadyLog("threadbus.replay")


@asynccontextmanager
async def tracing(
    bus: Bus,
    url: str,
    *,
    name: str = "",
    agent: str | None = None,
    examine: Examine | None = RunExaminer,
    content: bool = False,
    drain: timedelta = _DRAIN,
) -> AsyncGenerator[Exporters]:
    """Export what happens on a bus for as long as the context lasts.

    Leaving normally exports what is in the log by then. What goes wrong with the export is
    logged, and leaves the work as it is.

    Args:
        bus: an open bus.
        url: the collector: ``http://127.0.0.1:4318``.
        name: under which it is kept how far the export got; ``exporter``, with the agent's name
            where one is given.
        agent: export only the spans of this agent; everything when absent. The spans of the
            super-task and its threads then come from ``bus trace``, or from another process.
        examine: finds what went wrong in a run that has ended.
        content: whether spans carry the beginnings of what was said.
        drain: how long leaving takes at most.

    Raises:
        CollectorUrlError: the URL is none of a collector.
        InvalidNameError: a name is outside the grammar.
        ReadError: the position cannot be read.

    Cancellation: ends the export at once; the next one goes on where it was done.
    """
    collector = Collector(url)
    only = None if agent is None else parse_agent_name(agent)
    if not name:
        name = "exporter" if only is None else f"exporter-{only}"[:63]
    leaving = asyncio.Event()

    def make(consumer: LogConsumer) -> LiveExporter:
        return LiveExporter(
            bus,
            consumer,
            patient(collector.send),
            examine=examine,
            content=content,
            keep=None if only is None else _of(only),
        )

    async with open_exporters(bus, name, make) as exporter:
        work = asyncio.create_task(_export(exporter, leaving), name=f"threadbus.trace[{name}]")
        try:
            yield exporter
            leaving.set()
            await asyncio.wait({work}, timeout=drain.total_seconds())
        finally:
            work.cancel()
            await asyncio.wait({work})


async def _export(exporter: Exporters, leaving: asyncio.Event) -> None:
    try:
        await exporter.run(leaving.is_set)
    except Exception as error:
        # Whoever is watched must not suffer from it.
        _log.error("tracing has ended", reason=str(error), kind=type(error).__name__)


def _of(agent: AgentName) -> Callable[[Span], bool]:
    def keep(span: Span) -> bool:
        return span.service == agent

    return keep
