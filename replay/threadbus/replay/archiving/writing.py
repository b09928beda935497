"""Super-tasks into files, checked, and then out of the log."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from threadbus.bus import Bus, retention
from threadbus.replay.archiving.plan import Archived, ArchivePlan, make_plan
from threadbus.replay.errors import ExportTargetError
from threadbus.replay.exporting import MAX_TASKS, whole_or_nothing, write_export
from threadbus.replay.source import BusSource

_READ_BYTES: Final = 1 << 20
INDEX: Final = "index.jsonl"


class ArchiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of ``index.jsonl``: which file has a super-task."""

    task: str
    file: str
    title: str
    opened_at: int
    closed_at: int


class ArchiveDone(msgspec.Struct, frozen=True, kw_only=True):
    """What an archiving did."""

    before: int
    files: tuple[str, ...]
    tasks: int
    dropped: int
    """Events that are no longer in the log."""


async def plan_archive(bus: Bus, keep: timedelta) -> ArchivePlan:
    """Work out what can leave the log, without changing anything.

    Args:
        bus: an open bus, with the operator's key.
        keep: how much of the log stays in any case.

    Cancellation: safe.
    """
    waiting = await retention.tasks_with_waiting_mentions(bus.settings)
    now = (await bus.storage()).server_time or time.time_ns()
    before = now - keep // timedelta(microseconds=1) * 1000
    return await make_plan(bus.tasks.controls(), before=before, waiting=waiting)


async def archive(
    bus: Bus,
    plan: ArchivePlan,
    folder: Path,
    *,
    spare: timedelta = retention.DEFAULT_SPARE,
    on_file: Callable[[str], None] | None = None,
) -> ArchiveDone:
    """Write the super-tasks of a plan to files, read these again, and shorten the log.

    Args:
        bus: an open bus, with the operator's key.
        plan: what leaves.
        folder: is made if it is missing; earlier files in it stay.
        spare: how much more than planned stays in the log.
        on_file: called with each file that is written.

    Raises:
        ExportTargetError: a file cannot be written, or is not what was written; nothing has left.
        ReadError, StreamMismatchError: the server did not shorten the log.

    Cancellation: files that are written stay; the log is as it was, or shorter.
    """
    if not plan.tasks:
        return ArchiveDone(before=plan.before, files=(), tasks=0, dropped=0)
    source = BusSource(bus)
    stamp = datetime.fromtimestamp(plan.before / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
    files: list[str] = []
    lines: list[ArchiveLine] = []
    # One that was killed before the cut has left files that are called the same.
    names = (folder / f"until-{stamp}-{number:04}.jsonl.gz" for number in itertools.count(1))
    free = (path for path in names if not path.exists())
    for start in range(0, len(plan.tasks), MAX_TASKS):
        tasks = plan.tasks[start : start + MAX_TASKS]
        path = next(free)
        await _write(source, tasks, path)
        files.append(str(path))
        lines += [_line(task, path) for task in tasks]
        if on_file is not None:
            on_file(str(path))
    _add_to_index(folder, lines)
    dropped = await retention.drop_before(bus.settings, plan.before, spare=spare)
    return ArchiveDone(
        before=plan.before, files=tuple(files), tasks=len(plan.tasks), dropped=dropped
    )


async def _write(source: BusSource, tasks: Sequence[Archived], path: Path) -> None:
    """Write one file, and read it again from the disk."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ExportTargetError(str(path), error.strerror or str(error)) from error
    with whole_or_nothing(path, force=False) as stream:
        written = _Digest(stream)
        # It is a BinaryIO in all that is used of it.
        await write_export(source, [task.task for task in tasks], cast("BinaryIO", written))
    if await asyncio.to_thread(_digest_of, path) != written.hexdigest():
        raise ExportTargetError(str(path), "what was read back is not what was written")


class _Digest:
    """A file that knows the digest of what was written to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        """Write on."""
        self._digest.update(content)
        return self._stream.write(content)

    def flush(self) -> None:
        """Flush what is below."""
        self._stream.flush()

    def hexdigest(self) -> str:
        """Return the digest of everything that was written."""
        return self._digest.hexdigest()


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") as file:
            while content := file.read(_READ_BYTES):
                digest.update(content)
    except (OSError, EOFError) as error:
        raise ExportTargetError(str(path), f"it cannot be read again: {error}") from error
    return digest.hexdigest()


def _line(task: Archived, path: Path) -> ArchiveLine:
    return ArchiveLine(
        task=task.task,
        file=path.name,
        title=task.title,
        opened_at=task.opened_at,
        closed_at=task.closed_at,
    )


def _add_to_index(folder: Path, lines: Sequence[ArchiveLine]) -> None:
    path = folder / INDEX
    try:
        with path.open("ab") as file:
            file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        # What follows cannot be taken back: names of files are on the disk before it, too.
        for one in (folder, folder.parent):
            _sync_folder(one)
    except OSError as error:
        raise ExportTargetError(str(path), error.strerror or str(error)) from error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
