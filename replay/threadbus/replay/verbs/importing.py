"""``busreplay import``: logs of other systems become files, or super-tasks, that can be shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import typer

from threadbus.replay.errors import ImportFileError, ReplayError
from threadbus.replay.importing import ImportedRun, ImportFormat, import_file
from threadbus.replay.streams import note
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    NkeyOption,
    TimeoutOption,
    UrlOption,
    make_app,
    run,
    stop,
)
from threadbus.replay.text import first_line, neutral, plural
from threadbus.schemas import Event, Origin, Recorded, export_line

_MAX_LISTED: Final = 20

app = make_app()


class _Counts(msgspec.Struct):
    files: int = 0
    runs: int = 0
    events: int = 0
    skipped: int = 0
    tasks: list[str] = []


@app.command(name="import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON or JSONL, also gzipped; or folders of such."),
    ],
    format_: Annotated[
        ImportFormat, typer.Option("--format", help="How to read it; told by its shape.")
    ] = ImportFormat.AUTO,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The exported file to write; otherwise standard output."
        ),
    ] = None,
    to_server: Annotated[
        bool, typer.Option("--to-server", help="Write to the log of a server instead.")
    ] = False,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Make an exported file of the logs of other systems: Who&When, AgentRx, tau-bench, the OpenAI
    Agents SDK, OTLP JSON, or any JSON of messages.

    Nobody is woken by what is imported, and what a benchmark says of a run beside it (who failed,
    what would have been right) is not taken along.
    """
    paths = list(_paths(files))
    if to_server and output is not None:
        stop("--to-server and --output: choose one", ExitCode.USAGE)
    if not to_server and output is None and sys.stdout.isatty():
        stop("say where to: -o RUN.jsonl, > RUN.jsonl, or --to-server", ExitCode.USAGE)
    counts = _Counts()

    async def imported() -> None:
        if to_server:
            await _to_server(paths, format_, counts, (url, creds, nkey, connect_timeout))
            return
        with ExitStack() as stack:
            out: BinaryIO = sys.stdout.buffer
            if output is not None:
                try:
                    out = stack.enter_context(output.open("wb"))
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise ImportFileError(str(output), f"cannot write: {reason}") from error
            for found in _runs(paths, format_, counts):
                out.writelines([export_line(item) for item in found.entries])
            out.flush()

    try:
        run(imported())
    finally:
        if counts.runs:
            _tell(counts, output)


def _paths(files: list[Path]) -> Iterator[Path]:
    for file in files:
        if not file.is_dir():
            yield file
            continue
        for path in sorted(file.rglob("*")):
            if path.is_file() and path.name.endswith((".json", ".jsonl", ".json.gz", ".jsonl.gz")):
                yield path


def _runs(paths: list[Path], format_: ImportFormat, counts: _Counts) -> Iterator[ImportedRun]:
    for path in paths:
        counts.files += 1
        for found in import_file(path, format_):
            counts.runs += 1
            counts.events += len(found.entries)
            counts.skipped += found.skipped
            if len(counts.tasks) < _MAX_LISTED:
                counts.tasks.append(f"{found.task}  {neutral(first_line(found.name, 80))}")
            yield found


async def _to_server(
    paths: list[Path],
    format_: ImportFormat,
    counts: _Counts,
    where: tuple[str | None, str | None, str | None, str | None],
) -> None:
    # Writing a file should not take the time that importing the client takes.
    from threadbus.bus import BusSettings, connect

    url, creds, nkey, connect_timeout = where
    settings = BusSettings.from_env(
        url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout
    )
    async with connect(settings) as bus:
        for found in _runs(paths, format_, counts):
            async for entry in bus.read(found.task):
                if isinstance(entry, Recorded):
                    raise _AlreadyThereError(found.task, bus.settings.url)
            for item in found.entries:
                await bus.forks.append(_as_copy(item))


def _as_copy(item: Recorded) -> Event:
    """Return an event that wakes nobody, and yet says whom it woke and when that was."""
    event = item.event
    origin = Origin(
        task=event.task, id=event.id, seq=item.seq, at=item.stored_at, mentions=event.mentions
    )
    return msgspec.structs.replace(event, mentions=(), origin=origin)


class _AlreadyThereError(ReplayError):
    """A run was imported before."""

    def __init__(self, task: str, where: str) -> None:
        super().__init__(task, where)
        self.task = task
        self.where = where

    def __str__(self) -> str:
        return f"run {self.task} is on {self.where} already; busreplay {self.task} shows it"


def _tell(counts: _Counts, output: Path | None) -> None:
    for line in counts.tasks:
        note(line)
    if counts.runs > len(counts.tasks):
        note(f"and {counts.runs - len(counts.tasks):,} more")
    skipped = ""
    if counts.skipped:
        entries = "entry" if counts.skipped == 1 else "entries"
        skipped = f"; {counts.skipped:,} {entries} of a kind that says nothing left out"
    said = (
        f"imported {plural(counts.files, 'file')}: {plural(counts.runs, 'run')}, "
        f"{plural(counts.events, 'event')}{skipped}"
    )
    note(said)
    if output is not None:
        which = f" {counts.tasks[0][:32]}" if counts.runs > 1 else ""
        note(f"busreplay{which} --file {output} shows it")
