"""The files of the repository, for the tests that guard its rules."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("agents", "bus", "gateways", "replay", "schemas")
_NOT_OURS: Final = {"__pycache__", "build", "dist"}


@cache
def source_files() -> tuple[Path, ...]:
    """Return the files of the project, from its root: what git knows or would add.

    Without git (a copy of the tree on a bare machine) these are all files outside hidden and
    build folders.
    """
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        listing = subprocess.run(
            [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        names = listing.stdout.decode().split("\0")
        return tuple(sorted({Path(n) for n in names if n and (ROOT / n).is_file()}))
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return tuple(
        sorted(
            path
            for path in found
            if not any(part in _NOT_OURS or part.startswith(".") for part in path.parent.parts)
        )
    )


def python_files() -> tuple[Path, ...]:
    """Return the Python files of the project, from its root."""
    return tuple(path for path in source_files() if path.suffix == ".py")
