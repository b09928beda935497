"""What the shell can complete: ids of super-tasks, threads and agents of one, verbs.

Whoever presses TAB waits, and cannot be told anything: there is a short deadline, and where
nothing is found in time, or there is no server, there is nothing to complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer

from threadbus.replay.lookup import find_task
from threadbus.replay.source import Source, closing
from threadbus.replay.terminal import Place, open_source
from threadbus.replay.text import first_line
from threadbus.schemas import Recorded, ThreadbusError

DEADLINE_S: Final = 1.5
"""Seconds for everything that one completion does."""

MAX_OFFERED: Final = 50
"""Ids, threads or agents that are offered."""

MAX_READ: Final = 20_000
"""Entries of a log that are looked through for threads and agents."""

_MAX_LISTED: Final = 200
_TITLE_CHARS: Final = 60

Offer = list[tuple[str, str]]
"""What may stand there, each with a word on it."""


def complete_tasks(ctx: typer.Context, incomplete: str) -> Offer:
    """Return ids that begin so, the newest first, with their titles."""

    async def look(source: Source) -> Offer:
        prefix = incomplete.strip().lower().replace("-", "")
        lines = [one for one in await source.newest(_MAX_LISTED) if one.task.startswith(prefix)]
        return [(one.task, first_line(one.title, _TITLE_CHARS)) for one in lines[:MAX_OFFERED]]

    return _look(ctx, look)


def complete_threads(ctx: typer.Context, incomplete: str) -> Offer:
    """Return the threads of the super-task that was named before."""
    return [pair for pair in _in_task(ctx, _note_threads) if pair[0].startswith(incomplete)]


def complete_agents(ctx: typer.Context, incomplete: str) -> Offer:
    """Return the agents of the super-task that was named before."""
    return [pair for pair in _in_task(ctx, _note_agents) if pair[0].startswith(incomplete)]


def _note_threads(item: Recorded, found: dict[str, str]) -> None:
    title = getattr(item.event.data, "title", "") if item.event.type == "thread.opened" else ""
    found[item.event.thread] = found.get(item.event.thread) or first_line(title, _TITLE_CHARS)


def _note_agents(item: Recorded, found: dict[str, str]) -> None:
    for name in (item.event.sender, *item.event.mentions):
        found.setdefault(name, "")


def _in_task(ctx: typer.Context, note: Callable[[Recorded, dict[str, str]], None]) -> Offer:
    found: dict[str, str] = {}

    async def look(source: Source) -> Offer:
        count = 0
        task = await find_task(source, str(ctx.params.get("task") or ""))
        async with closing(source.read(task)) as items:
            async for item in items:
                count += 1
                if isinstance(item, Recorded):
                    note(item, found)
                if count >= MAX_READ or len(found) > MAX_OFFERED:
                    break
        return []

    _look(ctx, look)
    # What was found before the time was up is better than nothing.
    return list(found.items())[:MAX_OFFERED]


def _look(ctx: typer.Context, look: Callable[[Source], Awaitable[Offer]]) -> Offer:
    place = _place(ctx.params)

    async def within_deadline() -> Offer:
        async with asyncio.timeout(DEADLINE_S), open_source(place) as source:
            return await look(source)

    if place.file is None:
        # How long this takes says nothing of the server.
        import_module("threadbus.bus")
    with (
        contextlib.suppress(ThreadbusError, OSError, TimeoutError),
        # What a client has to say would be taken for something to complete.
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        return asyncio.run(within_deadline())
    return []


def _place(params: dict[str, Any]) -> Place:
    """Return where to look, as the words before say."""
    file = params.get("file")
    return Place(
        file=Path(file) if file else None,
        url=params.get("url"),
        credentials=params.get("creds"),
        nkey=params.get("nkey"),
        connect_timeout="1",
    )
