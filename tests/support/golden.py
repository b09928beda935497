"""Text that was looked at once and must stay as it is."""

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"
UPDATE = "THREADBUS_UPDATE_GOLDEN"
"""Set it to write the files again; then look at what ``git diff`` shows."""


def assert_golden(name: str, text: str) -> None:
    """Assert that *text* is what the file *name* below ``tests/golden`` holds."""
    path = FOLDER / name
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{name} differs; {UPDATE}=1 writes it again"
