"""``bus trace``: the live exporter as a command, plugged into ``bus`` by its entry point."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import structlog
import typer

from threadbus.replay.errors import CollectorUrlError, TracesMissingError
from threadbus.replay.plugged import INTERRUPTED, settings_of, telling
from threadbus.replay.streams import note
from threadbus.schemas import SchemaError

if TYPE_CHECKING:
    from threadbus.bus import Bus, BusSettings, LogConsumer
    from threadbus.replay.tracing.metrics import BusMetrics
    from threadbus.replay.tracing.partitions import Exporters

DEFAULT_URL: Final = "http://127.0.0.1:4318"
_DRAIN_S: Final = 10.0
_POLL_S: Final = 5.0

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("trace")
def trace(
    ctx: typer.Context,
    *,
    otlp: Annotated[
        str,
        typer.Option(
            help="The collector, OTLP over HTTP [OTEL_EXPORTER_OTLP_ENDPOINT; "
            f"{DEFAULT_URL} if absent]."
        ),
    ] = "",
    exporter: Annotated[
        str, typer.Option(help="Name under which the server keeps how far it got.")
    ] = "exporter",
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Leave out what is in the log already.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the end of the log instead of going on.")
    ] = False,
    content: Annotated[
        bool,
        typer.Option("--content", help="Put the beginnings of what was said into the spans."),
    ] = False,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Send metrics to the collector as well.")
    ] = False,
    url: Annotated[str, typer.Option(help="Where the NATS server is. [BUS_URL]")] = "",
) -> None:
    """Export every super-task as an OpenTelemetry trace, live.

    Each super-task is one trace, its id that of the trace. Ctrl-C stops; the next start goes on
    where this one was done. docs/traces.md says what is in the spans.
    """
    given: dict[str, Any] = cast("dict[str, Any] | None", ctx.obj) or {}
    from threadbus.replay.tracing.collector import traces_url

    where = otlp or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or DEFAULT_URL
    with telling(SchemaError, CollectorUrlError, TracesMissingError):
        traces_url(where)
        settings = settings_of(dict(given.get("typed", {})), url)
        work = _trace(
            settings,
            where,
            exporter,
            from_now=from_now,
            once=once,
            content=content,
            with_metrics=metrics,
        )
        asyncio.run(work)


async def _trace(
    settings: BusSettings,
    url: str,
    name: str,
    *,
    from_now: bool,
    once: bool,
    content: bool,
    with_metrics: bool,
) -> None:
    from threadbus.bus import StreamKind, connect
    from threadbus.replay.tracing.collector import Collector
    from threadbus.replay.tracing.examining import RunExaminer
    from threadbus.replay.tracing.live import LiveExporter, patient
    from threadbus.replay.tracing.otlp import encode_request
    from threadbus.replay.tracing.partitions import open_exporters

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    encode_request([])  # Says at once when OpenTelemetry is missing.
    collector = Collector(url)
    stop = asyncio.Event()
    async with connect(settings) as bus, _metrics(url, bus, wanted=with_metrics) as metrics:
        after: list[int] = []
        if from_now:
            streams = (await bus.storage()).streams
            after = [one.last_seq for one in streams if one.kind is StreamKind.LOG]

        def make(consumer: LogConsumer) -> LiveExporter:
            return LiveExporter(
                bus,
                consumer,
                # Whoever waits for the end wants to know that nobody answers.
                collector.send if once else patient(collector.send),
                examine=RunExaminer,
                content=content,
                watch=None if metrics is None else metrics.watch,
            )

        async with open_exporters(bus, name, make, after) as exporter:
            note(
                f"bus trace: {settings.url} to {collector.url} as {name!r}, "
                f"from sequence {_listed(at + 1 for at in exporter.positions)}"
            )
            with _stopping(stop):
                await _run(exporter, stop, once=once)
        done = exporter.done
        lost = f", {done.refused} refused" if done.refused else ""
        note(
            f"bus trace: {done.events} events, {done.spans} spans of {done.traces} ended "
            f"super-tasks{lost}; done up to sequence {_listed(exporter.positions)}"
        )


def _listed(seqs: Iterable[int]) -> str:
    return ", ".join(map(str, seqs))


async def _run(exporter: Exporters, stop: asyncio.Event, *, once: bool) -> None:
    def enough() -> bool:
        return once or stop.is_set()

    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(exporter.run(enough), name="threadbus.trace.export")
        stopped = tasks.create_task(stop.wait(), name="threadbus.trace.stop")
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await asyncio.wait({work}, timeout=_DRAIN_S)
            work.cancel()
        stopped.cancel()


class _stopping:  # noqa: N801 - a context manager that reads as a verb
    """Set an event at SIGTERM or SIGINT; a second one ends the process at once."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def _on_signal(self) -> None:
        if self._stop.is_set():
            os._exit(INTERRUPTED)
        self._stop.set()

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


@asynccontextmanager
async def _metrics(url: str, bus: Bus, *, wanted: bool) -> AsyncGenerator[BusMetrics | None]:
    """Send metrics for as long as the context lasts, and look now and then at who waits."""
    if not wanted:
        yield None
        return
    from threadbus.replay.tracing.metrics import BusMetrics
    from threadbus.replay.tracing.provider import meter_provider

    provider = meter_provider(url)
    metrics = BusMetrics(provider.get_meter("threadbus"))
    looking = asyncio.create_task(_look(bus, metrics), name="threadbus.trace.look")
    try:
        yield metrics
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        await asyncio.to_thread(provider.shutdown)


async def _look(bus: Bus, metrics: BusMetrics) -> None:
    from threadbus.bus import BusError

    while True:
        with suppress(BusError, TimeoutError):
            metrics.waiting = await bus.pending_mentions()
        await asyncio.sleep(_POLL_S)
