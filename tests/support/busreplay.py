"""Run the command ``busreplay`` as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "busreplay")
DEADLINE_S = 60.0


def environment(**variables: str) -> dict[str, str]:
    """Return an environment without the settings, colours and locale of whoever runs the tests."""
    unwanted = ("BUS_", "LC_", "LANG", "PYTHON", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "LANG": "C.UTF-8", "TERM": "xterm-256color", **variables}


def busreplay(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end; its output is piped."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )


def start_busreplay(*arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start the command; its output is piped."""
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
