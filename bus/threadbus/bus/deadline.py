"""A limit on how long something is waited for."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import TracebackType

from threadbus.bus.errors import WaitTimeoutError


class Deadline(AbstractAsyncContextManager[asyncio.Timeout]):
    """``asyncio.timeout`` that says what was waited for. A class: each wait goes through it."""

    def __init__(self, what: str, timeout: timedelta) -> None:
        self._what = what
        self._seconds = timeout.total_seconds()
        self._limit = asyncio.timeout(self._seconds)

    async def __aenter__(self) -> asyncio.Timeout:
        return await self._limit.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise WaitTimeoutError(self._what, self._seconds) from expired


def end_by(limit: asyncio.Timeout, deadline_at: int | None) -> None:
    """Let a wait end at a moment of the wall clock, if that is earlier."""
    if deadline_at is None:
        return
    now = asyncio.get_running_loop().time()
    end = now + max(0.0, (deadline_at - time.time_ns()) / 1e9)
    when = limit.when()
    limit.reschedule(end if when is None else min(when, end))
