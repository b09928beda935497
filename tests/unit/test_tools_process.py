"""The parts of a bounded process that need no process: how it ended, and its folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from threadbus.agents.tools.process import folders
from threadbus.agents.tools.process.outcome import Ended, ended_by, last_line
from threadbus.agents.tools.process.warden import Report


def ended(report: Report, stderr: bytes = b"", *, overflowed: bool = False) -> tuple[object, ...]:
    return ended_by(report, overflowed=overflowed, stderr=stderr, cpu_limit_s=2)


@pytest.mark.parametrize(
    ("report", "stderr", "expected"),
    [
        (Report("exit", 0), b"", (Ended.EXIT, 0, "")),
        (Report("exit", 3 << 8), b"ValueError: MemoryError", (Ended.EXIT, 3, "")),
        (Report("exit", 0), b"MemoryError", (Ended.EXIT, 0, "")),
        (Report("exit", 1 << 8), b"Traceback\nMemoryError\n", (Ended.MEMORY, 1, "")),
        (
            Report("exit", 1 << 8),
            b"numpy._core._exceptions._ArrayMemoryError: Unable to allocate",
            (Ended.MEMORY, 1, ""),
        ),
        (Report("exit", 1 << 8), b"OSError: [Errno 27] File too large", (Ended.FILE_SIZE, 1, "")),
        (
            Report("exit", 1 << 8),
            b"RuntimeError: can't start new thread",
            (Ended.PROCESSES, 1, ""),
        ),
        (Report("exit", signal.SIGXCPU), b"", (Ended.CPU_TIME, None, "SIGXCPU")),
        (Report("exit", signal.SIGKILL, 2.9), b"", (Ended.CPU_TIME, None, "SIGKILL")),
        (Report("exit", signal.SIGKILL, 0.1), b"", (Ended.SIGNAL, None, "SIGKILL")),
        (Report("exit", signal.SIGXFSZ), b"", (Ended.FILE_SIZE, None, "SIGXFSZ")),
        (Report("exit", 40), b"", (Ended.SIGNAL, None, "signal 40")),
        (Report("wall_time"), b"", (Ended.WALL_TIME, None, "")),
        (Report("folder"), b"", (Ended.FOLDER, None, "")),
        (Report("processes"), b"", (Ended.PROCESSES, None, "")),
        (Report("lost"), b"", (Ended.SIGNAL, None, "SIGKILL")),
    ],
)
def test_the_limit_that_ended_a_run_is_found(
    report: Report, stderr: bytes, expected: tuple[object, ...]
) -> None:
    """Status, time and the last line of a traceback tell which limit it was."""
    assert ended(report, stderr) == expected


def test_too_much_output_comes_before_everything() -> None:
    """A run that was stopped for its output ended for nothing else."""
    assert ended(Report("stopped"), overflowed=True) == (Ended.OUTPUT, None, "")


def test_the_last_line_is_one_with_text() -> None:
    """Blank lines at the end, and bytes that are no text, do no harm."""
    assert last_line(b"first\n  last \xff\n\n  \n") == "last \ufffd"
    assert last_line(b"\n") == ""
    assert len(last_line(b"x" * 5000)) == 300


def nest(folder: Path, depth: int) -> None:
    """Make folders inside of one another, deeper than a path can name."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_a_folder_of_any_depth_is_measured_and_removed(tmp_path: Path) -> None:
    """Neither recursion nor the longest path is a bound, and links are not followed."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    folder = tmp_path / "folder"
    folder.mkdir()
    nest(folder, 1500)
    (folder / "link").symlink_to(kept)
    (folder / "closed").mkdir()
    (folder / "closed" / "inner").mkdir()
    (folder / "closed" / "inner").chmod(0)
    (folder / "closed").chmod(0)
    assert folders.usage(str(folder), 100)[0] == 101
    assert folders.usage(str(folder), 100_000)[0] == 100_001
    folders.remove(str(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "kept"
    folders.remove(str(folder))


def test_the_usage_of_a_folder_is_its_entries_and_blocks(tmp_path: Path) -> None:
    """Files count by what they take on disk, so a hole costs nothing."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "data").write_bytes(os.urandom(100_000))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(10 * 2**30)
    entries, size = folders.usage(str(tmp_path), 10)
    assert entries == 3
    assert 100_000 <= size < 1_000_000
