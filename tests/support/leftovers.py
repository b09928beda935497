"""Find what a bounded process left behind."""

from __future__ import annotations

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
