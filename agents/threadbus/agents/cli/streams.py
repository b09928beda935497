"""Standard streams that are closed when the command begins, or that nobody reads any more."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PipedConsole(Console):
    """A console that leaves it to the command what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Say it as every other writer does; rich would end the process with 1."""
        raise BrokenPipeError


class NotingConsole(Console):
    """A console for what is said beside the result: what cannot be written is lost."""

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except (OSError, ValueError):
            del self._buffer[:]

    def on_broken_pipe(self) -> None:
        """Go on: what the command does matters more than who hears of it."""


def open_missing() -> None:
    """Open standard streams that are closed, to nowhere.

    Otherwise the next file or socket gets the number, with all that children and libraries write
    there; and what has no standard error to go to would be written to standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def let_go() -> None:
    """Drop what standard error did not take: trying again at the end would change the exit code."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
