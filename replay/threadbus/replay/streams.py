"""Standard streams that are closed when a command begins, or that nobody reads any more."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import typer


def note(text: str) -> None:
    """Say *text* on standard error; where that cannot be written it is lost, and nothing else."""
    with suppress(OSError, ValueError):
        typer.echo(text, err=True)


def open_missing() -> None:
    """Open standard streams that are closed, to nowhere; a socket would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def let_go() -> None:
    """Drop what standard error did not take: trying again at the end would change the exit code."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
