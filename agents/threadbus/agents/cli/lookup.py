"""From what a person types to a super-task: the whole id, or a beginning of it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from threadbus.agents.cli.failures import TaskLookupError, UsageError
from threadbus.bus import Bus
from threadbus.schemas import TaskId

_ID: Final = re.compile(r"[0-9a-f]{1,32}", re.ASCII)
_NEAR: Final = 200


async def find_task(bus: Bus, typed: str) -> TaskId:
    """Return the super-task whose id is, or begins with, *typed*.

    Raises:
        UsageError: it can be no id.
        TaskLookupError: there is none, or there are several.
    """
    wanted = typed.strip().lower()
    if not wanted:
        raise UsageError("TASK", "", "name a super-task; `bus tasks` lists them")
    if not _ID.fullmatch(wanted):
        near = await _near(bus, wanted)
        raise TaskLookupError(typed, (), near)
    found = await bus.find_tasks(wanted)
    if len(found) == 1:
        return found[0]
    raise TaskLookupError(typed, found, () if found else await _near(bus, wanted))


async def _near(bus: Bus, wanted: str) -> list[str]:
    newest = [summary.task for summary in await bus.tasks.list(limit=_NEAR)]
    near = get_close_matches(wanted[:32], newest, n=2, cutoff=0.8)
    return [*near] or [*newest[:2]]
