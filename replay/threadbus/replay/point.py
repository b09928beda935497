"""A point of a run: one of its entries, named by its sequence or by the id of its event."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from threadbus.replay.errors import PointError
from threadbus.replay.lookup import find_task, unknown_task
from threadbus.replay.source import LogItem, Source
from threadbus.schemas import Recorded, TaskId

PointOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="N",
        help="An entry: its sequence, or the id of its event (the last digits will do).",
    ),
]

_LEAST_DIGITS: Final = 6
_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-f]{6,32}", re.ASCII)


class Point:
    """What a person typed, held against entries one by one."""

    def __init__(self, wanted: str) -> None:
        """Take it apart.

        Raises:
            PointError: it is neither a sequence nor the id of an event.
        """
        self.wanted = wanted.strip().lower().removeprefix("#").replace(",", "").replace("_", "")
        self._seq: int | None = None
        if _DIGITS.fullmatch(self.wanted):
            self._seq = int(self.wanted)
        elif not _HEX.fullmatch(self.wanted):
            raise PointError(
                wanted,
                f"give a sequence, or the id of an event or at least its last {_LEAST_DIGITS} "
                "digits; `busreplay TASK --format jsonl` has both",
            )

    def is_past(self, item: LogItem) -> bool:
        """Whether *item* comes after the point."""
        return self._seq is not None and item.seq > self._seq

    def is_at(self, item: LogItem) -> bool:
        """Whether *item* is the point."""
        if self._seq is not None:
            return item.seq == self._seq
        return isinstance(item, Recorded) and item.event.id.endswith(self.wanted)


async def whole(source: Source, wanted: str) -> tuple[TaskId, list[LogItem]]:
    """Read the whole run that a person named.

    Raises:
        TaskLookupError: the id names none, or several.
    """
    task = await find_task(source, wanted)
    entries = [item async for item in source.read(task)]
    if not any(isinstance(item, Recorded) for item in entries):
        raise await unknown_task(source, task)
    return task, entries


def find_point(entries: Sequence[LogItem], wanted: str) -> int:
    """Return the sequence of the entry that *wanted* names.

    A sequence between two entries, where other runs have theirs, names the one before.

    Raises:
        PointError: there is no such entry.
    """
    point = Point(wanted)
    before = [item for item in entries if not point.is_past(item)]
    named = [item for item in before if point.is_at(item)]
    ids = {item.event.id if isinstance(item, Recorded) else "" for item in named}
    if len(ids) == 1:
        return named[0].seq
    numbers = [item.seq for item in entries]
    there = f"its entries are {min(numbers, default=0):,} to {max(numbers, default=0):,}"
    if ids:
        raise PointError(wanted, f"{len(ids):,} events of the run have ids that end so")
    if not before or len(before) == len(entries):
        raise PointError(wanted, f"the run has none there; {there}")
    return before[-1].seq
