"""The verb ``busreplay export``: super-tasks into one file, whole or not at all."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from threadbus.replay.completion import complete_tasks
from threadbus.replay.errors import ExportTargetError
from threadbus.replay.export import FileSource, end_line, head_line
from threadbus.replay.lookup import find_task, unknown_task
from threadbus.replay.redact import Redaction
from threadbus.replay.source import LogItem, Source, closing
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    Place,
    Progress,
    RedactOption,
    TimeoutOption,
    UrlOption,
    make_app,
    open_source,
    redactor_for,
    run,
    stop,
)
from threadbus.replay.text import plural
from threadbus.schemas import Recorded, TaskId, export_line

MAX_TASKS: Final = 1_000
"""Super-tasks in one file at most."""

_FLUSH_BYTES: Final = 1 << 20

app = make_app()


@app.command()
def export(
    tasks: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK...",
            help="Super-task ids, or as much of their starts as is unique.",
            autocompletion=complete_tasks,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file; compressed where its name ends in .gz. - is standard output. "
            "Otherwise TASK.jsonl.gz here.",
        ),
    ] = None,
    redact: RedactOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if there is one already.")
    ] = False,
    file: FileOption = None,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Write super-tasks into one file that `busreplay --file` reads without a server.

    The log is verbatim. The file appears when it is complete; the same log gives the same bytes.
    """
    if len(tasks) > MAX_TASKS:
        stop(f"{len(tasks):,} super-tasks; one file takes {MAX_TASKS:,} at most", ExitCode.USAGE)
    place = Place(file=file, url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout)

    async def exported() -> None:
        async with open_source(place) as source:
            found = list(dict.fromkeys([await find_task(source, task) for task in tasks]))
            if output is not None and str(output) == "-":
                await write_export(source, found, sys.stdout.buffer, redact)
                return
            target = output or Path(f"{found[0]}.jsonl.gz")
            with whole_or_nothing(target, force=force) as stream:
                count = await write_export(source, found, stream, redact)
            what = plural(len(found), "super-task")
            typer.echo(f"{target}: {plural(count, 'entry').replace('entrys', 'entries')} of {what}")

    run(exported(), needs_server=file is None)


async def write_export(
    source: Source, tasks: list[TaskId], stream: BinaryIO, level: Redaction | None = None
) -> int:
    """Write super-tasks, one after the other, between a first and a last line.

    Args:
        source: where they are.
        tasks: which, in this order.
        stream: where to.
        level: how much is replaced; nothing without.

    Returns:
        How many entries there were.

    Raises:
        UnknownTaskError: the source has nothing of one of them.

    Cancellation: safe; what was written stays.
    """
    redactor = None if level is None else redactor_for(level)
    count = 0
    pending = bytearray()
    reports: set[LogItem] = set()
    with Progress(shown=True) as progress:
        for number, task in enumerate(tasks):
            has_event = False
            async with closing(source.read(task)) as items:
                async for item in items:
                    # Of a file, a line that nobody can read would come with every super-task.
                    if number and not isinstance(item, Recorded) and item in reports:
                        continue
                    if not isinstance(item, Recorded) and len(reports) < MAX_TASKS:
                        reports.add(item)
                    if not count:
                        before = source.redacted if isinstance(source, FileSource) else ""
                        pending += head_line(tasks, _stronger(level, before))
                    has_event = has_event or isinstance(item, Recorded)
                    pending += export_line(item if redactor is None else redactor.redact(item))
                    count += 1
                    if len(pending) > _FLUSH_BYTES:
                        stream.write(pending)
                        pending.clear()
                        progress(count)
            if not has_event:
                raise await unknown_task(source, task)
    pending += end_line(count)
    stream.write(pending)
    stream.flush()
    return count


def _stronger(level: Redaction | None, before: str) -> str:
    """Return the level that a file has which was redacted *before*, and now again."""
    order = ["", *Redaction]
    now = level or ""
    return before if before in order and order.index(before) > order.index(now) else now


@contextmanager
def whole_or_nothing(target: Path, *, force: bool) -> Generator[BinaryIO]:
    """Give a file that takes its name only when all of it is there and on the disk."""
    if target.exists() and not force:
        raise ExportTargetError(str(target), "it is there already; --force replaces it")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise ExportTargetError(str(target), error.strerror or str(error)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            if target.suffix == ".gz":
                # Neither name nor time in it: the same log gives the same bytes.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    yield packed  # type: ignore[misc]  # a BinaryIO in all that is used of it
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        # As any file that the user makes; mkstemp lets nobody else read it.
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except OSError as error:
        raise ExportTargetError(str(target), error.strerror or str(error)) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
