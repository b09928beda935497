"""Where real logs of other systems are: never in the project, and not on every machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_BESIDE = ("shared/data",)


def real_logs() -> Path:
    """Return the folder that THREADBUS_DATA names, or else one beside the project.

    Where there is none the test is skipped, in CI too: it is data, and none of our services.
    """
    named = os.environ.get("THREADBUS_DATA")
    candidates = [Path(named)] if named else []
    candidates += [above / name for above in list(_ROOT.parents)[:2] for name in _BESIDE]
    found = next((folder for folder in candidates if (folder / "README.md").is_file()), None)
    if found is None:
        pytest.skip("no real logs here: set THREADBUS_DATA to their folder")
    return found
