"""From what a person typed to the id of one super-task."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final

from threadbus.replay.errors import AmbiguousTaskError, UnknownTaskError
from threadbus.replay.source import Source, TaskLine
from threadbus.replay.text import first_line, moment
from threadbus.schemas import TaskId

MAX_CANDIDATES: Final = 10
"""Super-tasks that an error lists."""

_MAX_COMPARED: Final = 200
_NEWEST_SHOWN: Final = 5
_HEX: Final = re.compile(r"[0-9a-f]{1,32}", re.ASCII)
_FULL_LENGTH: Final = 32
_NEAR: Final = 0.6


async def find_task(source: Source, wanted: str) -> TaskId:
    """Return the id that *wanted* names: in full, by a prefix, or by being the only one.

    Dashes and capitals do not matter. A full id is not looked up: reading it tells.

    Args:
        source: where to look.
        wanted: what a person typed; empty for the only super-task there is.

    Raises:
        UnknownTaskError: there is none; has the nearest and the newest.
        AmbiguousTaskError: there are several.

    Cancellation: safe.
    """
    prefix = wanted.strip().lower().replace("-", "")
    if len(prefix) == _FULL_LENGTH and _HEX.fullmatch(prefix):
        return TaskId(prefix)
    if prefix and not _HEX.fullmatch(prefix):
        raise await unknown_task(source, wanted)
    found = await source.find(prefix)
    if not found:
        raise await unknown_task(source, wanted)
    if len(found) > 1:
        titles = {line.task: line for line in await source.newest(_MAX_COMPARED)}
        shown = [titles.get(task, TaskLine(task)) for task in found[:MAX_CANDIDATES]]
        raise AmbiguousTaskError(wanted, tuple([_for_person(line) for line in shown]))
    return found[0]


async def unknown_task(source: Source, wanted: str) -> UnknownTaskError:
    """Return the error for an id that *source* does not have: with those that look alike."""
    lines = await source.newest(_MAX_COMPARED)
    typed = wanted.strip().lower().replace("-", "")
    scored = [(_likeness(typed, line.task), line) for line in lines]
    near = [line for score, line in sorted(scored, key=lambda s: -s[0]) if score >= _NEAR]
    chosen = dict.fromkeys((*near[:_NEWEST_SHOWN], *lines[:_NEWEST_SHOWN]))
    return UnknownTaskError(wanted, source.name, tuple([_for_person(line) for line in chosen]))


def _likeness(typed: str, task: TaskId) -> float:
    if not typed:
        return 0
    return SequenceMatcher(None, typed, task[: len(typed)], autojunk=False).ratio()


def _for_person(line: TaskLine) -> str:
    when = f"  {moment(line.opened_at)}" if line.opened_at else ""
    title = f"  {first_line(line.title, 60)}" if line.title else ""
    return f"{line.task}{when}{title}"
