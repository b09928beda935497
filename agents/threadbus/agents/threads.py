"""Plain functions in threads of their own, which no stop of the agent has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(run: Callable[..., Any], *arguments: Any) -> Any:
    """Call *run* in a daemon thread and return its value.

    ``asyncio.to_thread`` shares a few threads among all, and the end of the process waits for
    them: a function that blocks for an hour would hold up the others, and the stop.

    Cancellation: the function runs on; its value is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            # A future cannot hold it.
            future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(run, *arguments)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            # The loop was closed meanwhile: nobody waits any more.
            return

    name = f"threadbus.call[{getattr(run, '__name__', 'function')}]"
    threading.Thread(target=work, name=name, daemon=True).start()
    return await future
