"""One attempt: a handler in a task of its own, so that nothing it does can take the agent along.

It is ended by the time that it may take, by the end of its super-task, and by a stop of the
agent. Whatever it raises, SystemExit included, is an error of the attempt. One that does not let
itself be cancelled is left behind after a moment; it can append nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import structlog

from threadbus.agents.errors import HandlerExitError, TurnTimeoutError

STARTED_AFTER_S: Final = 0.05
"""A handler that is still running after this is on record as started."""

_GRACE_S: Final = 5.0
"""Time for a cancelled handler to clean up."""

_ArgumentT = TypeVar("_ArgumentT")
_ResultT = TypeVar("_ResultT")
_log: Any = structlog.get_logger("threadbus.agents")


def report(what: str, error: BaseException, **facts: str) -> None:
    """Log an error of a handler, whatever its message holds.

    A traceback may have text that the log cannot encode, and that must not end anybody's turn.
    """
    try:
        _log.warning(what, exc_info=error, **facts)
    except Exception as failure:
        _log.warning(what, kind=ascii(type(error).__name__), not_shown=ascii(failure), **facts)


async def guarded(
    handler: Callable[[_ArgumentT], Awaitable[_ResultT]], argument: _ArgumentT
) -> _ResultT:
    """Await a handler; what would end the process is an error like any other."""
    try:
        return await handler(argument)
    except (asyncio.CancelledError, GeneratorExit, Exception):
        raise
    except BaseException as error:
        raise HandlerExitError(type(error).__name__, str(error)) from error


async def attempt(
    handler: Coroutine[Any, Any, _ResultT],
    *,
    name: str,
    timeout_s: float,
    on_long: Callable[[], Awaitable[None]],
    until: Callable[[], Coroutine[Any, Any, Exception]],
    abandoned: set[asyncio.Task[Any]],
) -> _ResultT:
    """Run *handler* until it ends or must.

    Args:
        handler: what to run.
        name: of its task.
        timeout_s: how long it may take.
        on_long: called when it is still running after its first moments.
        until: then awaited beside it; what it returns is why the handler has to end.
        abandoned: takes up a handler that does not end when it is cancelled.

    Raises:
        TurnTimeoutError: it took too long.
        HandlerExitError: it tried to end the process, or cancelled itself.

    Cancellation: cancels the handler and waits a moment for its end.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    work = asyncio.create_task(_telling(handler, ended), name=name)
    try:
        await _first_moments(ended, min(STARTED_AFTER_S, timeout_s))
        if not work.done():
            await on_long()
            reason = await _watch(work, timeout_s - STARTED_AFTER_S, until, name)
            if reason is not None:
                raise reason
    finally:
        if not work.done():
            await _end(work, abandoned)
        if work.done():
            # Cancelled before its first step it would be called one that was never awaited.
            handler.close()
    if work.cancelled():
        raise HandlerExitError("CancelledError", "nobody had cancelled it")
    return work.result()


async def _telling(handler: Coroutine[Any, Any, _ResultT], ended: asyncio.Future[None]) -> _ResultT:
    """Await *handler* and say so at once: each mention would wait for the callbacks of a task."""
    try:
        return await handler
    finally:
        _tell(ended)


async def _first_moments(ended: asyncio.Future[None], seconds: float) -> None:
    timer = asyncio.get_running_loop().call_later(seconds, _tell, ended)
    try:
        await ended
    finally:
        timer.cancel()


def _tell(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


async def _watch(
    work: asyncio.Task[Any],
    seconds: float,
    until: Callable[[], Coroutine[Any, Any, Exception]],
    name: str,
) -> Exception | None:
    """Return why the handler has to end; None when it has ended."""
    watch = asyncio.create_task(until(), name=f"{name}.until")
    try:
        await asyncio.wait(
            {work, watch}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED
        )
        if work.done():
            return None
        return watch.result() if watch.done() else TurnTimeoutError(seconds + STARTED_AFTER_S)
    finally:
        watch.cancel()
        await asyncio.wait({watch})


async def _end(work: asyncio.Task[Any], abandoned: set[asyncio.Task[Any]]) -> None:
    work.cancel()
    # Also a second cancellation must not leave it unnamed.
    abandoned.add(work)
    work.add_done_callback(abandoned.discard)
    work.add_done_callback(_take_note)
    await asyncio.wait({work}, timeout=_GRACE_S)
    if not work.done():
        _log.error("a handler does not end when it is cancelled", handler=work.get_name())


def _take_note(work: asyncio.Task[Any]) -> None:
    """Look at the error, or the loop would report it as overlooked."""
    if not work.cancelled():
        work.exception()
