"""The exported file: one line of JSON for each entry of the log, in log order.

    {"seq":7,"stored_at":1772366405000000000,"subject":"bus.…","event":{…}}
    {"seq":8,"stored_at":1772366405000000000,"subject":"bus.…","rejected":"…","body":"…"}

``event`` is the event byte for byte as the log has it. Around it stands what the event itself does
not say and what is needed to put the log together again: where it was, when it was stored, and on
which subject (which alone has the class of an unknown type). An entry that could not be read keeps
its reason and its bytes (base64). What ``busreplay --format jsonl`` writes is such a file, and
writing out what was read from one gives the same bytes.

``busreplay export`` puts a line before and one after these, which a reader may pass over:

    {"export":{"format":"threadbus.export/1","tasks":["…"],"redacted":"texts"}}
    {"export_end":{"entries":2}}

The first says what the file holds and whether it was redacted; by the last a reader knows that
nothing is missing at the end.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import msgspec

from threadbus.replay.errors import ExportFileError
from threadbus.replay.source import LogItem, TaskLine, closing
from threadbus.schemas import (
    Event,
    Recorded,
    Rejected,
    SchemaError,
    TaskId,
    TaskOpened,
    decode_event,
    decode_recorded_event,
    export_line,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

EXPORT_FORMAT: Final = "threadbus.export/1"
"""What the first line says; the number rises when a reader has to know of a change."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one line; a longer one is reported as unreadable and passed over."""

_BATCH_BYTES: Final = 256 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_LEVEL_CHARS: Final = 20
_MAX_FORMAT_CHARS: Final = 60
_BOM: Final = b"\xef\xbb\xbf"


class _Line(msgspec.Struct):
    seq: int
    stored_at: int = 0
    subject: str = ""
    event: msgspec.Raw = msgspec.Raw()
    rejected: str | None = None
    body: bytes = b""


class ExportHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first line of an exported file says of it."""

    format: str = EXPORT_FORMAT
    tasks: tuple[str, ...] = ()
    redacted: str = ""
    """``secrets``, ``texts`` or ``names``; empty where nothing was replaced."""


class _End(msgspec.Struct):
    entries: int


class _Mark(msgspec.Struct):
    export: ExportHead | None = None
    export_end: _End | None = None


class _PeekedEvent(msgspec.Struct):
    task: str
    type: str = ""


class _PeekedLine(msgspec.Struct):
    event: _PeekedEvent


_LINE: Final = msgspec.json.Decoder(_Line)
_PEEK: Final = msgspec.json.Decoder(_PeekedLine)
_MARK: Final = msgspec.json.Decoder(_Mark)
_MARK_START: Final = b'{"export'


def head_line(tasks: Sequence[str], redacted: str = "") -> bytes:
    """Return the first line of an exported file, with its line end."""
    head = ExportHead(tasks=tuple(tasks), redacted=redacted)
    # The name of the format stands there although it is the default.
    fields = {"format": head.format, **msgspec.to_builtins(head)}
    return msgspec.json.encode({"export": fields}) + b"\n"


def end_line(entries: int) -> bytes:
    """Return the last line of an exported file, with its line end."""
    return b'{"export_end":{"entries":%d}}\n' % entries


def parse_line(line: bytes, number: int = 0) -> LogItem:
    """Return the entry that a line holds; what cannot be read becomes a report.

    Args:
        line: the line, with or without its end.
        number: its place in the file, 1-based, for the report.
    """
    if len(line) > MAX_LINE_BYTES:
        return Rejected(0, "", f"line {number}: over the limit of {MAX_LINE_BYTES:,} bytes")
    try:
        found = _LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Rejected(0, "", f"line {number}: not a line of an exported file: {error}")
    if found.rejected is not None:
        return Rejected(found.seq, found.subject, found.rejected, found.stored_at, found.body)
    body = bytes(found.event)
    if not body:
        reason = f"line {number}: has neither an event nor a reason why there is none"
        return Rejected(found.seq, found.subject, reason, found.stored_at)
    try:
        event = decode_recorded_event(found.subject, body) if found.subject else decode_event(body)
    except SchemaError as error:
        reason = f"line {number}: {error}"
        return Rejected(found.seq, found.subject, reason, found.stored_at, body)
    return Recorded(found.seq, event, found.stored_at, body)


_NumberedLine: TypeAlias = "tuple[int, bytes]"


class FileSource:
    """The super-tasks in an exported file, which may be compressed with gzip.

    The file is read as it goes, never as a whole. It does not grow: following it is reading it.

    Args:
        path: the file; opened anew by each method.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self.redacted = ""
        """How far the file was redacted, as it says itself; known once it has been read."""

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self._path)

    async def read(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task in the order of the file.

        An unreadable line counts to every super-task unless its subject names another one.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Raises:
            ExportFileError: the file cannot be opened or read.

        Cancellation: safe.
        """
        prefix = f"bus.{task}."
        marks = _Marks()
        item: LogItem | None
        async with closing(self._lines()) as lines:
            async for number, line in lines:
                if line.startswith(_MARK_START):
                    item = marks.take(line, number)
                    self.redacted = self.redacted or marks.redacted
                    if item is None:
                        continue
                else:
                    marks.entries += 1
                    item = parse_line(line, number)
                if isinstance(item, Recorded):
                    if item.event.task == task and item.seq > after:
                        yield item
                elif item.subject.startswith(prefix) or not item.subject.startswith("bus."):
                    yield item
        if (report := marks.missing_end()) is not None:
            yield report

    async def follow(self, task: TaskId, after: int = 0) -> AsyncIterator[LogItem]:
        """Read a super-task; a file has nothing more to come.

        Args:
            task: the super-task.
            after: only what is later than this sequence.

        Raises:
            ExportFileError: the file cannot be opened or read.

        Cancellation: safe.
        """
        async with closing(self.read(task, after)) as items:
            async for item in items:
                yield item

    async def find(self, prefix: str) -> list[TaskId]:
        """Return the super-tasks in the file whose id starts with *prefix*, in order of the file.

        Raises:
            ExportFileError: the file cannot be opened or read.

        Cancellation: safe.
        """
        return [line.task for line in await self._tasks() if line.task.startswith(prefix)]

    async def newest(self, limit: int) -> list[TaskLine]:
        """Return the super-tasks in the file, the last first, at most *limit*.

        Raises:
            ExportFileError: the file cannot be opened or read.

        Cancellation: safe.
        """
        return (await self._tasks())[::-1][:limit]

    async def _tasks(self) -> list[TaskLine]:
        found: dict[TaskId, TaskLine] = {}
        async for number, line in self._lines():
            try:
                peeked = _PEEK.decode(line).event
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            task = TaskId(peeked.task)
            if task in found and peeked.type != TaskOpened.TYPE:
                continue
            item = parse_line(line, number)
            if isinstance(item, Recorded):
                found[task] = _task_line(item.event, found.get(task))
        return list(found.values())

    async def _lines(self) -> AsyncIterator[_NumberedLine]:
        """Read the file in a thread, some lines at a time."""
        lines = _read_lines(self._path)
        try:
            while batch := await asyncio.to_thread(_some, lines):
                for numbered in batch:
                    yield numbered
        finally:
            # After a cancellation a thread may still be inside; the file is closed when it is done.
            with suppress(ValueError):
                lines.close()


class _Marks:
    """What the first and the last line say, held against what stands between them."""

    def __init__(self) -> None:
        self.redacted = ""
        self.entries = 0
        """Lines since the first one."""
        self._is_open = False

    def take(self, line: bytes, number: int) -> Rejected | None:
        """Take such a line; what is wrong with it is reported."""
        try:
            mark = _MARK.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Rejected(0, "", f"line {number}: not a line of an exported file: {error}")
        if mark.export is not None:
            self.redacted = self.redacted or mark.export.redacted[:_MAX_LEVEL_CHARS]
            self.entries, self._is_open = 0, True
            if mark.export.format != EXPORT_FORMAT:
                newer = mark.export.format[:_MAX_FORMAT_CHARS]
                return Rejected(0, "", f"line {number}: written as {newer!r}, which is not known")
        if mark.export_end is not None:
            self._is_open = False
            told = mark.export_end.entries
            if told != self.entries:
                return Rejected(0, "", f"line {number}: {told:,} entries were exported, and "
                                f"{self.entries:,} are here")  # fmt: skip
        return None

    def missing_end(self) -> Rejected | None:
        """Return a report where a first line has no last one."""
        if not self._is_open:
            return None
        return Rejected(0, "", f"the file breaks off after {self.entries:,} entries: no last line")


def _task_line(event: Event, before: TaskLine | None) -> TaskLine:
    if isinstance(event.data, TaskOpened) and (before is None or not before.opened_at):
        return TaskLine(event.task, event.data.title, event.at)
    return before or TaskLine(event.task)


def _some(lines: Iterator[_NumberedLine]) -> list[_NumberedLine]:
    batch: list[_NumberedLine] = []
    room = _BATCH_BYTES
    for number, line in lines:
        batch.append((number, line))
        room -= len(line)
        if room <= 0:
            break
    return batch


def _read_lines(path: Path) -> Generator[_NumberedLine]:
    """Read the lines that are not empty, each at most one byte over the limit, numbered from 1."""
    number = 0
    try:
        with path.open("rb") as file:
            stream = _unpacked(file)
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                rest = line
                while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
                    rest = stream.readline(MAX_LINE_BYTES + 1)
                if number == 1:
                    line = line.removeprefix(_BOM)
                if not line.isspace():
                    yield number, line
    except (EOFError, zlib.error, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if number == 0:
            raise ExportFileError(str(path), reason) from error
        # What came before it is worth seeing: the break is one more line that is unreadable.
        report = Rejected(0, "", f"the file breaks off after line {number:,}: {reason}")
        yield number + 1, export_line(report)


def _unpacked(file: io.BufferedReader) -> IO[bytes]:
    if file.peek(2)[:2] == _GZIP_MAGIC:
        return io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=file)), _BATCH_BYTES)
    return file


class _Unpacked(io.RawIOBase):
    """Gives out what was unpacked before it reads on, so a break loses nothing before it."""

    def __init__(self, file: gzip.GzipFile) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.read1(len(view))
        view[: len(data)] = data
        return len(data)
