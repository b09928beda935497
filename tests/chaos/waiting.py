"""Time that passes: scenarios are made of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def pause(over: asyncio.Event, seconds: float) -> bool:
    """Let time pass; False where *over* is set meanwhile.

    Cancellation: safe.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()
    return not over.is_set()


async def pass_time(seconds: float) -> None:
    """Let time pass, whatever happens.

    Cancellation: safe.
    """
    await pause(asyncio.Event(), seconds)
