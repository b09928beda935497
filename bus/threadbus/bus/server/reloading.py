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
_EXPORTS: Final = b'"exports"'
_FAILED: Final = b"Failed to reload"


async def reload_process(pid: int, log: Path, accounts: Path | None = None) -> None:
    """Send SIGHUP and wait until the server's log says what came of it.

    Twice where accounts take something of one another: nats-server enables JetStream for a new
    account only after it has looked at who imports its API.

    Args:
        pid: the server.
        log: its log file.
        accounts: the part of its configuration with the accounts, where there is one.

    Raises:
        ReloadError: it refused, is gone, or said nothing within 20 s.

    Cancellation: it may have reloaded.
    """
    for _ in range(2 if accounts is not None and _is_linked(accounts) else 1):
        await _reload_once(pid, log)


def _is_linked(accounts: Path) -> bool:
    try:
        return _EXPORTS in accounts.read_bytes()
    except OSError:
        return False


async def _reload_once(pid: int, log: Path) -> None:
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
