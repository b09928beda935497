"""The command ``busreplay``: options in, a run out, an exit code that says how it went.

The first word may be a verb of :data:`VERBS` instead of a super-task; ids are hex, and no verb is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Final

import typer

from threadbus.replay.lookup import find_task
from threadbus.replay.selection import Selection
from threadbus.replay.show import Format, Request, show
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    Place,
    Progress,
    TimeoutOption,
    UrlOption,
    make_app,
    open_source,
    run,
    stop,
)

VERBS: Final[dict[str, str]] = {
    "at": "threadbus.replay.verbs.at",
    "diff": "threadbus.replay.verbs.diff",
    "fork": "threadbus.replay.verbs.fork",
    "import": "threadbus.replay.verbs.importing",
    "verify": "threadbus.replay.verbs.verify",
}
"""Verb → the module whose ``app`` runs it; imported when it is typed."""

app = make_app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"busreplay {version('threadbus')}")
        raise typer.Exit


@app.command()
def replay(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="Super-task id, or as much of its start as is unique. "
            "May be left out where --file holds one super-task.",
        ),
    ] = "",
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            help="tree: for a person. jsonl: the log verbatim, which --file reads. "
            "json: one document of the whole story. html: a page to look around in. "
            "markdown: a report. mermaid: a sequence diagram. dot: what caused what. "
            "chrome-trace: lanes of time, for Perfetto.",
        ),
    ] = Format.TREE,
    thread: Annotated[str, typer.Option(help="Show this thread only, by its id.")] = "",
    agent: Annotated[
        str, typer.Option(help="Show only what this agent did and what was said to it.")
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on live until the task closes.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="N",
            help="Show what stood at an entry instead: its sequence or the id of its event.",
        ),
    ] = "",
    file: FileOption = None,
    limit: Annotated[
        int | None, typer.Option(help="Read no more than this many entries of the log.")
    ] = None,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Say the version and stop."
        ),
    ] = False,
) -> None:
    """Show a past or running super-task from its log alone: who woke whom, what they did, how long
    it took, what it cost, and how it ended.

    Exit codes: 0 shown, 1 not readable, 2 wrong use, 3 no such task (or several), 4 no server,
    130 Ctrl-C.
    """
    if not task.strip() and file is None:
        stop("name a super-task: busreplay TASK (`bus tasks` lists them)", ExitCode.USAGE)
    if limit is not None and limit < 1:
        stop(f"--limit {limit}: at least 1 entry must be read", ExitCode.USAGE)
    if follow and file is not None:
        stop("--follow needs a server: a file does not grow", ExitCode.USAGE)
    place = Place(file=file, url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout)
    if at:
        if output not in (Format.TREE, Format.JSON) or follow or thread or agent:
            stop("--at goes with --format tree or json and no filter", ExitCode.USAGE)
        # What it needs of the bus takes a while to import.
        from threadbus.replay.verbs.at import show_at

        run(show_at(place, task, at, as_json=output is Format.JSON))
        return
    selection = Selection(thread, agent)

    async def shown() -> None:
        async with open_source(place) as source:
            request = Request(
                task=await find_task(source, task),
                format=output,
                selection=selection,
                follow=follow,
                limit=limit,
            )
            with Progress(shown=not follow) as progress:
                await show(source, request, sys.stdout, sys.stdout.buffer, progress)

    run(shown())


def main() -> None:
    """Run the command; the console script ``busreplay``."""
    words = sys.argv[1:]
    if words and words[0] in VERBS:
        verb: typer.Typer = import_module(VERBS[words[0]]).app
        verb(args=words[1:], prog_name=f"busreplay {words[0]}")
    else:
        app(prog_name="busreplay")
