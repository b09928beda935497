"""Find what a bounded process left behind, and wait for conditions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path


def processes_in(folder: Path) -> list[int]:
    """Return the ids of the processes that have, or had, their working folder below *folder*."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here = str((entry / "cwd").readlink())
            except OSError:
                continue
            if here.startswith(str(folder)):
                found.append(int(entry.name))
    return found


def eventually(check: Callable[[], object], what: str, deadline_s: float = 20.0) -> None:
    """Return once *check* is true; fail with *what* when it does not come true."""
    pause = threading.Event()
    ends = time.monotonic() + deadline_s
    while not check():
        assert time.monotonic() < ends, f"not within {deadline_s:g} s: {what}"
        pause.wait(0.01)
