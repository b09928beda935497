"""Exporting a log of several partitions: each by an exporter of its own.

A super-task is whole in one partition, so its trace is the work of one exporter; each notes for
itself how far it got.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from threadbus.replay.tracing.live import Exported, LiveExporter

if TYPE_CHECKING:
    from threadbus.bus import Bus, LogConsumer


class Exporters:
    """A live exporter for each partition of the log; made by :func:`open_exporters`."""

    def __init__(self, each: Sequence[LiveExporter], consumers: Sequence[LogConsumer]) -> None:
        self._each = each
        self._consumers = consumers

    @property
    def positions(self) -> tuple[int, ...]:
        """The sequence up to which each partition is done."""
        return tuple(consumer.position for consumer in self._consumers)

    @property
    def done(self) -> Exported:
        """What they have done so far, together."""
        total = Exported()
        for exporter in self._each:
            total.events += exporter.done.events
            total.spans += exporter.done.spans
            total.traces += exporter.done.traces
            total.rebuilt += exporter.done.rebuilt
            total.refused += exporter.done.refused
        return total

    async def run(self, until: Callable[[], bool] | None = None) -> None:
        """Export until cancelled, or until *until* says at the end of the log that it is enough.

        Raises:
            CollectorRefusedError: the collector wants a key, or is none.
            ReadError: the server refused to be read.

        Cancellation: safe; what was not noted as done is exported again the next time.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, exporter in enumerate(self._each):
                    tasks.create_task(exporter.run(until), name=f"threadbus.trace[{number}]")
        except ExceptionGroup as group:
            # One failed, and took the others along.
            raise group.exceptions[0] from None


@asynccontextmanager
async def open_exporters(
    bus: Bus,
    name: str,
    make: Callable[[LogConsumer], LiveExporter],
    after: Sequence[int] = (),
) -> AsyncGenerator[Exporters]:
    """Take in every partition of a log.

    Args:
        bus: an open bus.
        name: under which it is kept how far each got.
        make: makes an exporter of a consumer.
        after: where to begin in each partition; where it was done when empty.

    Raises:
        InvalidNameError: the name is outside the grammar.
        ReadError: a position cannot be read.
    """
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(
                bus.consuming(name, after=after[number] if after else None, partition=number)
            )
            for number in range(bus.partitions)
        ]
        yield Exporters([make(consumer) for consumer in consumers], consumers)
