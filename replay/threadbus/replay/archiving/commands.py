"""``bus archive``, plugged into ``bus`` by its entry point."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from threadbus.replay.errors import ExportTargetError
from threadbus.replay.plugged import USAGE, settings_of, telling
from threadbus.replay.streams import note

if TYPE_CHECKING:
    from threadbus.bus import BusSettings
    from threadbus.replay.archiving.plan import ArchivePlan

_MAX_DAYS: Final = 36_500

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("archive")
def archive(
    ctx: typer.Context,
    *,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the files go; earlier ones stay.")
    ],
    days: Annotated[float, typer.Option(help="So much of the log stays; at least 0.01.")] = 90,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would leave, and what holds the rest.")
    ] = False,
    url: Annotated[str, typer.Option(help="Where the NATS server is. [BUS_URL]")] = "",
    nkey: Annotated[str, typer.Option(help="File with the operator's nkey. [BUS_NKEY]")] = "",
) -> None:
    """Write ended super-tasks to files and take them out of the log, as the operator.

    `busreplay TASK --file FOLDER/…` shows them as before. The log is cut before the oldest
    super-task that has not ended, or of which a mention waits: what lives keeps all its events.
    """
    given: dict[str, Any] = cast("dict[str, Any] | None", ctx.obj) or {}
    if not 0.01 <= days <= _MAX_DAYS:
        note(f"bus: --days {days:g}: from 0.01 to {_MAX_DAYS:,}")
        raise typer.Exit(USAGE)
    typed = dict(given.get("typed", {})) | ({"nkey": nkey} if nkey else {})
    with telling(ExportTargetError):
        work = _archive(settings_of(typed, url), folder, timedelta(days=days), dry_run=dry_run)
        asyncio.run(work)


async def _archive(settings: BusSettings, folder: Path, keep: timedelta, *, dry_run: bool) -> None:
    from threadbus.bus import connect
    from threadbus.replay.archiving.writing import archive, plan_archive

    async with connect(settings, ensure=False) as bus:
        plan = await plan_archive(bus, keep)
        _tell(plan, dry_run=dry_run)
        if dry_run:
            return
        done = await archive(bus, plan, folder, on_file=lambda file: typer.echo(f"wrote {file}"))
        typer.echo(f"archived {done.tasks:,} super-tasks; {done.dropped:,} events left the log")


def _tell(plan: ArchivePlan, *, dry_run: bool) -> None:
    when = "would leave" if dry_run else "leave"
    typer.echo(f"{len(plan.tasks):,} super-tasks {when}, all from before {_shown(plan.before)}")
    for one in plan.holding:
        note(
            f"  {one.task} of {_shown(one.opened_at)} holds what came after it: {one.reason} "
            f"(`bus cancel {one.task}`, or run the agent that is asked)"
        )


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1e9, UTC).isoformat(timespec="seconds")
