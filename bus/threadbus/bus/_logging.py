"""The log of this folder: a line that cannot be written is lost, and nothing else with it.

Where the log goes is up to whoever configures structlog, and a stream may be closed or its pipe
broken. What writes a line here stands in the middle of reading from the server, or of connecting to
it again: an error out of it would end that, and with it everything that waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import structlog


class SteadyLog:
    """Writes lines as structlog does, and never raises."""

    def __init__(self, name: str) -> None:
        self._log: Any = structlog.get_logger(name)
        self.lost = 0
        """Lines that could not be written."""

    def debug(self, event: str, **values: object) -> None:
        """Write a line for whoever looks for a fault."""
        self._write("debug", event, values)

    def info(self, event: str, **values: object) -> None:
        """Write a line that is good to know."""
        self._write("info", event, values)

    def warning(self, event: str, **values: object) -> None:
        """Write a line about what may be wrong."""
        self._write("warning", event, values)

    def error(self, event: str, **values: object) -> None:
        """Write a line about what went wrong."""
        self._write("error", event, values)

    def exception(self, event: str, **values: object) -> None:
        """Write a line about the error that is being handled, with its traceback."""
        self._write("exception", event, values)

    def _write(self, level: str, event: str, values: dict[str, object]) -> None:
        try:
            getattr(self._log, level)(event, **values)
        except Exception:
            # There is nowhere left to tell it.
            self.lost += 1


log: Final = SteadyLog("threadbus.bus")
"""The one of this folder."""

FULL_LINES: Final = 10
"""So many warnings of one kind are written one by one."""
THINNED_EVERY_S: Final = 60.0
"""After that one is written each time that so long has passed since the last, or the count has
doubled: a flood of a million is a few dozen lines, and a trickle is a line for each."""


class ThinnedLog:
    """Warnings of one kind, of which others decide how many there are: few lines tell of many."""

    def __init__(
        self, event: str, *, to: SteadyLog = log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare to write.

        Args:
            event: what each line says.
            to: where lines are written.
            clock: seconds, on any scale.
        """
        self._event = event
        self._to = to
        self._clock = clock
        self._count = 0
        self._told = 0
        self._told_at = 0.0

    def warning(self, **values: object) -> None:
        """Write a line, or only count it; a line that stands for others has the count of all."""
        self._count += 1
        now = self._clock()
        if self._count > FULL_LINES:
            is_due = now - self._told_at >= THINNED_EVERY_S or self._count >= 2 * self._told
            if not is_due:
                return
            values["count"] = self._count
        elif self._count == FULL_LINES:
            values["further"] = "counted, and told now and then"
        self._told, self._told_at = self._count, now
        self._to.warning(self._event, **values)
