"""Run Python code that a model wrote, in a bounded process.

:func:`run_python` gives the code a folder of its own with the input files, an environment without
secrets, and limits on time, memory, output, files and processes; it has no network. Whatever the
code does wrong is part of the :class:`SandboxResult`, so that a model can read it and try again.
Afterwards nothing is left: no process, no file. What the system cannot keep from the code is told
in :attr:`SandboxResult.isolation`.

The code sees the packages of the interpreter that runs the agent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from threadbus.agents.tools.errors import InvalidCodeError, InvalidInputFileError
from threadbus.agents.tools.process.bounded import run_bounded
from threadbus.agents.tools.process.outcome import Bounds, Ended, Isolation, Outcome
from threadbus.agents.tools.process.workspace import in_thread, working_folder

MAX_CODE_BYTES: Final = 256 * 1024
"""UTF-8 bytes of code in one run."""

_PROGRAM: Final = "main.py"
_MAX_NAME_CHARS: Final = 200
_MAX_NAME_BYTES: Final = 255
_MAX_DEPTH: Final = 8
_MAX_SEEN: Final = 10_000
"""Files and folders that are looked at when a run is over."""


class InputFile(msgspec.Struct, frozen=True):
    """A file that the code finds in its working folder."""

    name: str
    """Relative to the working folder; may name subfolders."""
    content: bytes


class OutputFile(msgspec.Struct, frozen=True):
    """A file that the code wrote or changed."""

    name: str
    """Relative to the working folder."""
    size: int
    """In bytes."""
    content: bytes | None
    """None when the limit on returned bytes left it out."""


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may use."""

    wall_time: timedelta = timedelta(seconds=30)
    cpu_time: timedelta = timedelta(seconds=20)
    """Of each process; rounded up to whole seconds."""
    memory_bytes: int = 1024 * 1024 * 1024
    """Address space of each process."""
    output_bytes: int = 64 * 1024
    """Of standard output, and again of standard error."""
    file_bytes: int = 16 * 1024 * 1024
    """Size of each file that the code writes."""
    folder_bytes: int = 64 * 1024 * 1024
    """All files together, input files included."""
    files: int = 256
    """Files and folders in the working folder, input files included."""
    processes: int = 32
    """Processes and threads at one time."""
    open_files: int = 128
    returned_bytes: int = 8 * 1024 * 1024
    """Content of written files that comes back, all files together."""
    returned_files: int = 64
    """Written files that are listed."""

    def bounds(self) -> Bounds:
        """Return the part of the limits that bounds the process."""
        return Bounds(
            wall_time=self.wall_time,
            cpu_time=self.cpu_time,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
            file_bytes=self.file_bytes,
            folder_bytes=self.folder_bytes,
            folder_entries=self.files + 1,
            processes=self.processes,
            open_files=self.open_files,
        )


class SandboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the code printed and wrote, and how it ended."""

    ended: Ended
    exit_status: int | None
    """None when a limit or a signal ended the code."""
    signal: str
    """The name of the signal that ended the code, or ``""``."""
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    duration_s: float
    cpu_s: float
    peak_memory_bytes: int
    files: tuple[OutputFile, ...]
    files_omitted: int
    """Written files that are not in :attr:`files`."""
    isolation: Isolation
    limits: SandboxLimits

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end and left with status 0."""
        return self.ended is Ended.EXIT and self.exit_status == 0

    def render(self) -> str:
        """Return everything but the content of files as text for a model."""
        lines = [self.summary()]
        for name, text, cut in (
            ("stdout", self.stdout, self.stdout_truncated),
            ("stderr", self.stderr, self.stderr_truncated),
        ):
            if text:
                lines += [f"--- {name}", text.rstrip("\n")]
            if cut:
                lines.append(f"[truncated: {name} after {self.limits.output_bytes:,} bytes]")
        lines += [f"--- wrote {file.name}, {file.size:,} bytes" for file in self.files]
        if self.files_omitted:
            lines.append(f"[truncated: {self.files_omitted:,} more files]")
        return "\n".join([*lines, *self.isolation.missing()]) + "\n"

    def summary(self) -> str:
        """Return one sentence on how the code ended: the limit, its value and the way out."""
        limits = self.limits
        match self.ended:
            case Ended.EXIT:
                return f"The code ended with exit status {self.exit_status}."
            case Ended.SIGNAL:
                return f"The code was ended by {self.signal}: it crashed, or memory ran out."
            case Ended.WALL_TIME:
                return f"Stopped after {_seconds(limits.wall_time)}: do less work, or in steps."
            case Ended.CPU_TIME:
                used = _seconds(limits.cpu_time)
                return f"Stopped after {used} of computing: use a faster method, or less data."
            case Ended.MEMORY:
                limit = limits.memory_bytes
                return f"An allocation failed at the limit of {limit:,} bytes: use less at a time."
            case Ended.OUTPUT:
                limit = limits.output_bytes
                return f"Stopped after {limit:,} bytes of output: print less, or write a file."
            case Ended.FILE_SIZE:
                return f"A file reached the limit of {limits.file_bytes:,} bytes: write less."
            case Ended.FOLDER:
                return (
                    f"Stopped: more than {limits.files:,} files or {limits.folder_bytes:,} bytes "
                    "in the working folder; write less."
                )
            case Ended.PROCESSES:
                limit = limits.processes
                return f"Stopped: more than {limit:,} processes and threads at once; start fewer."


async def run_python(
    code: str,
    *,
    files: Sequence[InputFile] = (),
    limits: SandboxLimits = SandboxLimits(),  # noqa: B008 -- frozen
    namespaces: bool = True,
) -> SandboxResult:
    """Run *code* as a program of its own and return what came of it.

    Args:
        code: A Python program; it finds *files* in its working folder.
        files: Copied into the working folder.
        limits: What the run may use.
        namespaces: False leaves the kernel's namespaces out, as on a system without them.

    Raises:
        InvalidCodeError: *code* is too long or no text.
        InvalidInputFileError: The name of a file is not a relative path below the working
            folder, or the files are more or larger than the limits allow.
        ProcessError: The process could not be started or ended.

    Cancellation: kills every process of the run, removes its files, and is passed on.
    """
    program = _checked_code(code)
    _check_files(files, limits)
    given = {**{file.name: file.content for file in files}, _PROGRAM: program}
    async with working_folder("run", given) as folder:
        outcome = await run_bounded(
            # Unbuffered, so that a run that is stopped has printed what it had to say.
            [sys.executable, "-I", "-B", "-u", "-X", "utf8", _PROGRAM],
            folder=folder,
            bounds=limits.bounds(),
            environment={
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "LANG": "C.UTF-8",
                # Address space is bounded: reserve none for a thread or an arena on every core.
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MALLOC_ARENA_MAX": "2",
            },
            namespaces=namespaces,
        )
        written, omitted = await in_thread(_written, folder, given, limits)
    return _result(outcome, limits, folder, written, omitted)


def _checked_code(code: str) -> bytes:
    try:
        program = code.encode()
    except UnicodeEncodeError as error:
        found = ord(code[error.start])
        raise InvalidCodeError(
            f"character {error.start} is U+{found:04X}, half of a pair; remove it"
        ) from error
    if len(program) > MAX_CODE_BYTES:
        raise InvalidCodeError(
            f"{len(program):,} bytes are over the limit of {MAX_CODE_BYTES:,}; "
            "put data into input files"
        )
    return program


def _check_files(files: Sequence[InputFile], limits: SandboxLimits) -> None:
    names, taken_folders = {_PROGRAM}, set[str]()
    total = 0
    for file in files:
        reason = _name_problem(file.name)
        if reason:
            raise InvalidInputFileError(file.name, reason)
        parents = {str(parent) for parent in PurePosixPath(file.name).parents} - {"."}
        if file.name in names | taken_folders or parents & names:
            raise InvalidInputFileError(file.name, "the name is taken; choose another")
        names.add(file.name)
        taken_folders |= parents
        total += len(file.content)
        if total > limits.folder_bytes:
            raise InvalidInputFileError(
                file.name,
                f"with it the files have {total:,} bytes, over the limit of "
                f"{limits.folder_bytes:,}; give less, or raise folder_bytes",
            )
    if len(files) >= limits.files:
        raise InvalidInputFileError(
            files[-1].name,
            f"it is file {len(files):,}, and the limit is {limits.files:,} with the code's own; "
            "give fewer, or raise files",
        )


def _name_problem(name: str) -> str:
    path = PurePosixPath(name)
    if not name or len(name) > _MAX_NAME_CHARS:
        return f"the name has {len(name)} characters; use 1 to {_MAX_NAME_CHARS}"
    if not name.isprintable() or "\\" in name:
        return "the name has a control character or a backslash; use letters and digits"
    if path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        return "the name is not a plain relative path; use one like 'data/sales.csv'"
    if len(path.parts) > _MAX_DEPTH:
        return f"the name has {len(path.parts)} levels; use up to {_MAX_DEPTH}"
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in path.parts):
        return f"a part of the name is over {_MAX_NAME_BYTES} bytes; use a shorter one"
    return ""


def _written(
    folder: Path, given: Mapping[str, bytes], limits: SandboxLimits
) -> tuple[tuple[OutputFile, ...], int]:
    """Return the files that the code wrote, and how many more there are."""
    listed: list[OutputFile] = []
    omitted = 0
    budget = limits.returned_bytes
    for name in sorted(_regular_files(folder)):
        size, content = _read(folder / name, max(budget, len(given.get(name, b""))))
        if content is not None and given.get(name) == content:
            continue
        if len(listed) == limits.returned_files:
            omitted += 1
            continue
        if content is not None and len(content) > budget:
            content = None
        budget -= len(content or b"")
        # A name that is not UTF-8 could not travel in JSON.
        shown = name.encode(errors="surrogateescape").decode(errors="replace")
        listed.append(OutputFile(shown, size, content))
    return tuple(listed), omitted


def _regular_files(folder: Path) -> Iterator[str]:
    """Yield the names of plain files, relative to *folder*; links are never followed."""
    pending = [(str(folder), 1)]
    seen = 0
    while pending:
        here, depth = pending.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                seen += 1
                if seen > _MAX_SEEN:
                    return
                if entry.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
                    os.chmod(entry.path, 0o700)  # noqa: PTH101
                    pending.append((entry.path, depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield os.path.relpath(entry.path, folder)


def _read(path: Path, limit: int) -> tuple[int, bytes | None]:
    """Return the size of a plain file, and its content if that is at most *limit* bytes."""
    status = path.lstat()
    # A second name of a file may be a name of a file elsewhere.
    if status.st_size > limit or status.st_nlink != 1:
        return status.st_size, None
    try:
        return status.st_size, path.read_bytes()
    except PermissionError:
        return status.st_size, None


def _result(
    outcome: Outcome,
    limits: SandboxLimits,
    folder: Path,
    written: tuple[OutputFile, ...],
    omitted: int,
) -> SandboxResult:
    ended = outcome.ended
    # Python says nothing when the last write to a file that nobody closes does not fit.
    if ended is Ended.EXIT and any(file.size == limits.file_bytes for file in written):
        ended = Ended.FILE_SIZE
    return SandboxResult(
        ended=ended,
        exit_status=outcome.exit_status,
        signal=outcome.signal,
        stdout=_text(outcome.stdout, folder),
        stderr=_text(outcome.stderr, folder),
        stdout_truncated=outcome.stdout_truncated,
        stderr_truncated=outcome.stderr_truncated,
        duration_s=outcome.duration_s,
        cpu_s=outcome.cpu_s,
        peak_memory_bytes=outcome.peak_memory_bytes,
        files=written,
        files_omitted=omitted,
        isolation=outcome.isolation,
        limits=limits,
    )


def _text(output: bytes, folder: Path) -> str:
    """Return output as text that can travel in JSON, the same in every run of the same code."""
    text = output.decode(errors="replace").replace("\0", "\ufffd")
    return text.replace(f"{folder}/", "").replace(str(folder), ".")


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():g} s"
