"""Have a running nats-server read its configuration again, and see that it did."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from threadbus.bus.access_errors import ReloadError
from threadbus.bus.server.files import size_of

_PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.02
_DONE: Final = b"Reloaded server configuration"
_FAILED: Final = b"Failed to reload"


async def reload_process(pid: int, log: Path) -> None:
    """Send SIGHUP and wait until the server's log says what came of it.

    Args:
        pid: the server.
        log: its log file.

    Raises:
        ReloadError: it refused, is gone, or said nothing within 20 s.

    Cancellation: it may have reloaded.
    """
    before = size_of(log)
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError as error:
        raise ReloadError(pid, error.strerror or str(error)) from error
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                said = _since(log, before)
                if _FAILED in said:
                    reason = said[said.index(_FAILED) :].split(b"\n")[0].decode("utf-8", "replace")
                    raise ReloadError(pid, reason)
                if _DONE in said:
                    return
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError as error:
        raise ReloadError(pid, f"its log {log} says nothing of it") from error


def _since(log: Path, offset: int) -> bytes:
    try:
        with log.open("rb") as file:
            # The log may have been turned over.
            file.seek(offset if size_of(log) >= offset else 0)
            return file.read()
    except OSError:
        return b""
