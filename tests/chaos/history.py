"""What writers were told, kept outside of the bus: a history in the manner of Jepsen.

A writer notes each append before it sends it (``invoke``) and what came of it after: ``ok`` when
the bus acknowledged it, ``fail`` when the bus said that it did not happen, ``info`` when nobody can
know (no answer in time, a lost process). An invocation without an end is ``info`` too. Each line is
on the disk before the writer goes on, so that a ``kill -9`` of the writer loses none.

    {"phase":"invoke","event":"<id>","task":"<id>"}
    {"phase":"ok","event":"<id>","seq":17}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from threadbus.schemas import EventId, TaskId, ThreadbusError, shorten

MAX_LINE_BYTES: Final = 4096
"""Bytes of one line of a history; a longer one is no line of it."""


class Phase(StrEnum):
    """What a line says of an append."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a history."""

    phase: Phase
    event: EventId
    task: TaskId = TaskId("")
    seq: int = 0
    """Where the bus said that it landed; 0 where it did not say."""
    why: str = ""


class History(msgspec.Struct, frozen=True):
    """What one writer noted, in the order of its clock."""

    name: str
    steps: tuple[Step, ...]


class HistoryFileError(ThreadbusError):
    """A file is no history."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(path, line, reason)
        self.path = path
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.reason}; a history has lines of JSON"


_DECODER: Final = msgspec.json.Decoder(Step)
_ENCODER: Final = msgspec.json.Encoder()


class Journal:
    """A history that grows on the disk.

    Args:
        path: the file; what is there already stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def note(
        self, phase: Phase, event: EventId, *, task: str = "", seq: int = 0, why: str = ""
    ) -> None:
        """Write one line; it is on the disk when this returns."""
        step = Step(phase, event, TaskId(task), seq, shorten(why))
        # One write each: what several processes append never mixes within a line.
        os.write(self._file, _ENCODER.encode(step) + b"\n")
        os.fsync(self._file)


def read_history(path: Path) -> History:
    """Read a file that a :class:`Journal` wrote.

    A last line without its end is what a kill cut off: nothing of it was promised.

    Raises:
        HistoryFileError: a line is none.
    """
    with path.open("rb") as file:
        return History(path.name, tuple(_steps(str(path), file)))


def _steps(path: str, lines: Iterable[bytes]) -> Iterator[Step]:
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        if len(line) > MAX_LINE_BYTES:
            raise HistoryFileError(path, number, f"more than {MAX_LINE_BYTES:,} bytes")
        try:
            yield _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HistoryFileError(path, number, str(error)) from error
