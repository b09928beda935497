"""The log of this folder: a line that cannot be written is lost, and nothing else with it.

Where the log goes is up to whoever configures structlog, and a stream may be closed or its pipe
broken. What writes a line here stands in the middle of reading from the server, or of connecting to
it again: an error out of it would end that, and with it everything that waits.
"""

from __future__ import annotations

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
