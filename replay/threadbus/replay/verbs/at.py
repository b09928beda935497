"""``busreplay at``: what stood, who worked on what and what was open at a point of a run."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from threadbus.replay.asof import state_at
from threadbus.replay.asof_text import write_state
from threadbus.replay.paint import painter_for
from threadbus.replay.point import find_point, whole
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    Place,
    TimeoutOption,
    UrlOption,
    make_app,
    open_source,
    run,
    stop,
)

app = make_app()


async def show_at(place: Place, task: str, point: str, *, as_json: bool) -> None:
    """Show a run as of a point.

    Raises:
        TaskLookupError: the id names no run, or several.
        PointError: the run has no such entry.
    """
    async with open_source(place) as source:
        _, entries = await whole(source, task)
    now = state_at(entries, find_point(entries, point))
    if as_json:
        document = msgspec.json.format(msgspec.json.encode(now), indent=2)
        sys.stdout.buffer.write(document + b"\n")
        sys.stdout.buffer.flush()
    else:
        write_state(painter_for(sys.stdout), now)


@app.command()
def at(
    task: Annotated[
        str,
        typer.Argument(
            metavar="[TASK]", help="The run; left out where --file holds one super-task."
        ),
    ] = "",
    point: Annotated[
        str,
        typer.Argument(
            metavar="N",
            help="An entry: its sequence, or the id of its event (the last digits will do).",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    file: FileOption = None,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Show a run as of one of its entries: status, participants, plan, who works on what, open
    questions, assignments and votes, tokens so far."""
    if not point and file is not None:
        task, point = "", task
    if not point:
        stop("say which entry: busreplay at TASK N", ExitCode.USAGE)
    place = Place(file=file, url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout)
    run(show_at(place, task, point, as_json=as_json))
