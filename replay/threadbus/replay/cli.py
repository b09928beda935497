"""The command ``busreplay``: options in, a run out, an exit code that says how it went."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, NoReturn, TextIO

import msgspec
import structlog
import typer
from rich.console import Console
from structlog.typing import EventDict, WrappedLogger

from threadbus.replay.errors import TaskLookupError
from threadbus.replay.export import FileSource
from threadbus.replay.lookup import find_task
from threadbus.replay.selection import Selection
from threadbus.replay.show import Format, Request, show
from threadbus.replay.source import BusSource, Source
from threadbus.schemas import ThreadbusError

_PROGRESS_FROM: Final = 5_000


class ExitCode(IntEnum):
    """How it went."""

    OK = 0
    """The run was shown, or the reader of a pipe had enough of it."""
    ERROR = 1
    """Something could not be read; the message says what."""
    USAGE = 2
    """The options are not right."""
    UNKNOWN_TASK = 3
    """The id names no super-task, or more than one."""
    NO_SERVER = 4
    """No usable server answers."""
    INTERRUPTED = 130
    """Ctrl-C."""


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    wanted: str
    file: Path | None
    url: str | None
    credentials: str | None
    nkey: str | None
    connect_timeout: str | None
    format: Format
    selection: Selection
    follow: bool
    limit: int | None


app = typer.Typer(
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
            "json: one document of the whole story.",
        ),
    ] = Format.TREE,
    thread: Annotated[str, typer.Option(help="Show this thread only, by its id.")] = "",
    agent: Annotated[
        str, typer.Option(help="Show only what this agent did and what was said to it.")
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on live until the task closes.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(help="Read an exported file (JSONL, also gzipped) instead of a server."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Read no more than this many entries of the log.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Where the NATS server is [env BUS_URL; nats://127.0.0.1:4222]."),
    ] = None,
    creds: Annotated[
        str | None, typer.Option(help="File with NATS credentials [env BUS_CREDS].")
    ] = None,
    nkey: Annotated[
        str | None, typer.Option(help="File with a NATS nkey seed [env BUS_NKEY].")
    ] = None,
    connect_timeout: Annotated[
        str | None,
        typer.Option(help="Seconds for a server to answer [env BUS_CONNECT_TIMEOUT]."),
    ] = None,
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
        _stop("name a super-task: busreplay TASK (`bus tasks` lists them)", ExitCode.USAGE)
    if limit is not None and limit < 1:
        _stop(f"--limit {limit}: at least 1 entry must be read", ExitCode.USAGE)
    if follow and file is not None:
        _stop("--follow needs a server: a file does not grow", ExitCode.USAGE)
    options = _Options(
        wanted=task,
        file=file,
        url=url,
        credentials=creds,
        nkey=nkey,
        connect_timeout=connect_timeout,
        format=output,
        selection=Selection(thread, agent),
        follow=follow,
        limit=limit,
    )
    structlog.configure(
        processors=[_drop_what_is_shown, structlog.dev.ConsoleRenderer(colors=False)],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    _be_ready_for_any_text(sys.stdout)
    try:
        asyncio.run(_replay(options))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read has gone; writing what is left to nowhere keeps Python from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.OK) from None
    except ThreadbusError as error:
        _stop(str(error), _exit_code(error))


async def _replay(options: _Options) -> None:
    async with _open(options) as source:
        request = Request(
            task=await find_task(source, options.wanted),
            format=options.format,
            selection=options.selection,
            follow=options.follow,
            limit=options.limit,
        )
        with _Progress(shown=not options.follow) as progress:
            await show(source, request, sys.stdout, sys.stdout.buffer, progress)


@asynccontextmanager
async def _open(options: _Options) -> AsyncGenerator[Source]:
    if options.file is not None:
        yield FileSource(options.file)
        return
    # A file is read without a client of the server, which takes a while to import.
    from threadbus.bus import BusSettings, connect

    settings = BusSettings.from_env(
        url=options.url,
        credentials=options.credentials,
        nkey=options.nkey,
        connect_timeout=options.connect_timeout,
    )
    async with connect(settings) as bus:
        yield BusSource(bus)


def _exit_code(error: ThreadbusError) -> ExitCode:
    if isinstance(error, TaskLookupError):
        return ExitCode.UNKNOWN_TASK
    from threadbus.bus import ConnectError, InvalidSettingError

    if isinstance(error, ConnectError):
        return ExitCode.NO_SERVER
    return ExitCode.USAGE if isinstance(error, InvalidSettingError) else ExitCode.ERROR


class _Progress:
    """Says on a terminal how far reading is, once that takes longer than a moment."""

    def __init__(self, *, shown: bool) -> None:
        console = Console(stderr=True)
        self._status = console.status("", spinner="line") if shown and console.is_terminal else None

    def __enter__(self) -> _Progress:
        return self

    def __call__(self, count: int) -> None:
        if self._status is not None and count >= _PROGRESS_FROM:
            self._status.update(f"{count:,} entries read")
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


def _drop_what_is_shown(_: WrappedLogger, level: str, event: EventDict) -> EventDict:
    """Keep the client's log to what this command does not show itself."""
    if level in {"debug", "info"} or "not an event" in str(event.get("event")):
        raise structlog.DropEvent
    return event


def _be_ready_for_any_text(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _stop(message: str, code: ExitCode) -> NoReturn:
    typer.echo(f"busreplay: {message}", err=True)
    raise typer.Exit(code)


def main() -> None:
    """Run the command; the console script ``busreplay``."""
    app(prog_name="busreplay")
