"""What a bounded process may use, and how it ended."""

from __future__ import annotations

import enum
import os
import re
import signal
from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.tools.process.warden import Report

_LAST_LINE_CHARS: Final = 300


class Ended(enum.Enum):
    """What ended a run."""

    EXIT = "exit"
    """The command ended by itself, well or not."""
    SIGNAL = "signal"
    """A signal that no limit explains: a crash, or the kernel out of memory."""
    WALL_TIME = "wall_time"
    CPU_TIME = "cpu_time"
    MEMORY = "memory"
    """The command ended because an allocation failed."""
    OUTPUT = "output"
    FILE_SIZE = "file_size"
    """The command ended because a file would have become too large."""
    FOLDER = "folder"
    """Too many files, or too large together."""
    PROCESSES = "processes"
    """Too many processes and threads at once."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use."""

    wall_time: timedelta = timedelta(seconds=30)
    cpu_time: timedelta = timedelta(seconds=20)
    """Of each process; rounded up to whole seconds."""
    memory_bytes: int = 1024 * 1024 * 1024
    """Address space of each process."""
    output_bytes: int = 64 * 1024
    """Of standard output, and again of standard error."""
    file_bytes: int = 16 * 1024 * 1024
    """Size of each file."""
    folder_bytes: int = 64 * 1024 * 1024
    """All files together."""
    folder_entries: int = 256
    """Files and folders, given ones included."""
    processes: int = 32
    """Processes and threads at one time."""
    open_files: int = 128


# How the last line of a traceback shows a limit that code met as an exception.
_TRACES: Final = (
    (Ended.MEMORY, re.compile(r"([\w.]+\.)?_?(Array)?MemoryError\b")),
    # Python 3.13, where not even the traceback finds the memory to be printed.
    (Ended.MEMORY, re.compile(r"lost sys\.stderr$")),
    (Ended.FILE_SIZE, re.compile(r"OSError: \[Errno 27\]")),
    (
        Ended.PROCESSES,
        re.compile(r"BlockingIOError: \[Errno 11\]|RuntimeError: can't start new th"),
    ),
)


class Isolation(msgspec.Struct, frozen=True):
    """What the kernel kept from the command; it depends on the system and how it is set up."""

    network: bool = False
    """No network, not even the loopback interface."""
    processes: bool = False
    """No power over other processes, and none can outlive the run."""
    files: bool = False
    """Only its folder and the installed software can be read; only its folder can be written."""
    unprivileged: bool = False
    """None of the rights of root."""

    def missing(self) -> tuple[str, ...]:
        """Return one sentence for each thing that this system could not keep from the command."""
        gaps = {
            "The network was not cut off.": self.network,
            "Other processes of the same user were not protected.": self.processes,
            "Files outside of the working folder were not protected.": self.files,
            "The code ran with the rights of root.": self.unprivileged,
        }
        return tuple(sentence for sentence, held in gaps.items() if not held)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    ended: Ended
    exit_status: int | None = None
    """None unless the command ended by itself without a signal."""
    signal: str = ""
    """The name of the signal that ended the command."""
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    duration_s: float
    cpu_s: float
    """0 when the command was killed from outside."""
    peak_memory_bytes: int
    """0 when the command was killed from outside."""
    isolation: Isolation


def ended_by(
    report: Report, *, overflowed: bool, stderr: bytes, cpu_limit_s: float
) -> tuple[Ended, int | None, str]:
    """Return what ended a run, its exit status and the name of its signal."""
    if overflowed:
        return Ended.OUTPUT, None, ""
    if report.ended in {Ended.WALL_TIME.value, Ended.FOLDER.value, Ended.PROCESSES.value}:
        return Ended(report.ended), None, ""
    if report.ended != "exit":  # its init was killed: by the kernel, for want of memory
        return Ended.SIGNAL, None, "SIGKILL"
    code = os.waitstatus_to_exitcode(report.status)
    if code >= 0:
        return _ended_by_itself(code, stderr), code, ""
    name = _signal_name(-code)
    # Code that ignores the first signal is killed a second of CPU time later.
    if name == "SIGXCPU" or (name == "SIGKILL" and report.cpu_s >= cpu_limit_s):
        return Ended.CPU_TIME, None, name
    return (Ended.FILE_SIZE if name == "SIGXFSZ" else Ended.SIGNAL), None, name


def _ended_by_itself(code: int, stderr: bytes) -> Ended:
    line = last_line(stderr) if code else ""
    return next((ended for ended, trace in _TRACES if trace.match(line)), Ended.EXIT)


def last_line(output: bytes) -> str:
    """Return the last line with text in *output*, shortened."""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:_LAST_LINE_CHARS] if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
