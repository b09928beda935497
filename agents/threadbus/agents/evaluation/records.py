"""What came of each attempt, appended to a file as it comes: a run that was killed goes on.

The first line names the questions and who answers; then one line when an attempt is opened, with
the id of its super-task, and one when it has ended. A line that was cut by a kill is dropped.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from threadbus.agents.evaluation.errors import RecordsError
from threadbus.schemas import TaskId

FORMAT: Final = 1
_MAX_BYTES: Final = 1024 * 1024 * 1024


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation"):
    """What a file of results is about."""

    format: int = FORMAT
    questions: str
    """The file of questions, for people."""
    asked: str
    """Who answers: a team with its model, or agents."""
    started_at: int
    """Nanoseconds since the epoch."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """An attempt whose super-task is opened now, or was just before."""

    question: str
    attempt: int
    """From 1."""
    task: TaskId


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """How one attempt ended."""

    question: str
    attempt: int
    digest: str
    """Of what was asked and expected."""
    task: TaskId
    status: str
    """``completed``, ``failed``, ``cancelled``, or ``timeout``."""
    said: str = ""
    """The answer that was compared."""
    right: bool | None = None
    """None where it is not known what is right."""
    why: str = ""
    """Why there is no answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    cost: float | None = None
    """In dollars; None without prices."""
    duration_ns: int = 0


Line = Header | Opened | Outcome


class Records:
    """A file of results, held by one process. Use it inside ``with``."""

    def __init__(self, path: Path, header: Header) -> None:
        """Prepare; the file is opened by ``with``.

        Args:
            path: the file; made where there is none.
            header: what this run is about.
        """
        self._path = path
        self._header = header
        self._file: BinaryIO | None = None
        self.opened: dict[tuple[str, int], TaskId] = {}
        """Question and attempt → its super-task, the latest one."""
        self.outcomes: dict[tuple[str, int], Outcome] = {}
        """Question and attempt → how it ended; the latest counts."""
        self.started_at = header.started_at

    def __enter__(self) -> Self:
        """Open the file and read what is in it.

        Raises:
            RecordsError: another process has it, it is none, or it is about something else.
        """
        try:
            file = self._path.open("a+b")
        except OSError as error:
            raise RecordsError(str(self._path), error.strerror or str(error)) from error
        try:
            self._take(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, line: Opened | Outcome) -> None:
        """Append a line; it is on the disk when this returns.

        Raises:
            RecordsError: it cannot be written.
        """
        self._keep(line)
        self._write(line)

    def _take(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            reason = "another `bus eval` writes to it; wait for its end, or give --results FILE"
            raise RecordsError(str(self._path), reason) from None
        file.seek(0)
        content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise RecordsError(str(self._path), f"over {_MAX_BYTES:,} bytes; give --results FILE")
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            # The end of a line that was being written when the process was killed.
            file.truncate(len(whole))
        self._file = file
        lines = whole.splitlines()
        header = self._decode(lines[0], 1) if lines else None
        if header is None or (len(lines) == 1 and isinstance(header, Header)):
            # Nothing was asked yet: a run that could not begin binds no later one.
            file.truncate(0)
            self._write(self._header)
            return
        self._check(header)
        for number, line in enumerate(lines[1:], 2):
            self._keep(self._decode(line, number))

    def _check(self, header: Line) -> None:
        own = self._header
        if not isinstance(header, Header):
            raise RecordsError(str(self._path), "this is no file of results; give --results FILE")
        if (header.format, header.questions, header.asked) != (
            own.format,
            own.questions,
            own.asked,
        ):
            reason = (
                f"it holds results of {header.asked} for {header.questions}, and this run is "
                f"{own.asked} for {own.questions}; give --results FILE"
            )
            raise RecordsError(str(self._path), reason)
        self.started_at = header.started_at

    def _decode(self, line: bytes, number: int) -> Line:
        try:
            return msgspec.json.decode(line, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = f"line {number} is no result ({error}); give --results FILE"
            raise RecordsError(str(self._path), reason) from None

    def _keep(self, line: Line) -> None:
        match line:
            case Opened():
                self.opened[line.question, line.attempt] = line.task
            case Outcome():
                self.outcomes[line.question, line.attempt] = line
            case Header():
                pass

    def _write(self, line: Line) -> None:
        if self._file is None:
            raise RecordsError(str(self._path), "it is not open")
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RecordsError(str(self._path), error.strerror or str(error)) from error
