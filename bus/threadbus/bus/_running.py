"""A task for as long as a context lasts.

A TaskGroup wraps whatever the body raises into an exception group. Around code of our users that
would hide their own errors from their own ``except``, so what we run beside them runs here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from threadbus.bus._logging import log as _log


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncGenerator[asyncio.Task[None]]:
    """Run *work* in a task named *name*; cancel it and wait for its end when the context ends.

    An error of *work* is logged when it happens and raised when the context ends in order.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("a background task ended", task=task.get_name(), error=repr(task.exception()))
