"""One attempt: a handler in a task of its own, so that nothing it does can take the agent along.

It is ended by the time that it may take, by the end of its super-task, and by a stop of the
agent. Whatever it raises, SystemExit included, is an error of the attempt. One that does not let
itself be cancelled is left behind after a moment; it can append nothing more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from threadbus.agents.errors import HandlerExitError, TurnOverError, TurnTimeoutError
from threadbus.agents.lanes import WATCHED_AFTER_S
from threadbus.bus import SteadyLog

STARTED_AFTER_S: Final = WATCHED_AFTER_S
"""A handler that is still running after this is on record as started."""

_GRACE_S: Final = 5.0
"""Time for a cancelled handler to clean up."""

_ArgumentT = TypeVar("_ArgumentT")
_ResultT = TypeVar("_ResultT")
_log: Final = SteadyLog("threadbus.agents")


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


class Attempt(Generic[_ResultT]):
    """One run of a handler, and of what becomes of its result, in one task of its own.

    In one task, since to go back to the one that watches would cost each answer a turn of the loop.
    """

    def __init__(
        self,
        handler: Coroutine[Any, Any, _ResultT],
        then: Callable[[_ResultT], Awaitable[None]],
        name: str,
    ) -> None:
        """Prepare an attempt.

        Args:
            handler: what to run.
            then: awaited with what it returned. Only a stop of the agent ends that.
            name: of the task.
        """
        self._handler = handler
        self._then = then
        self._name = name
        self._work: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._has_result = self._is_over = False

    def start(
        self, around: Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """Start it, once; *around* is run in its place and awaits it."""
        run = self._run()
        self._work = _started(run if around is None else around(run), self._name)

    async def _run(self) -> None:
        try:
            result = await self._handler
            if self._is_over:
                raise TurnOverError
            self._has_result = True
            await self._then(result)
        finally:
            # At once: no turn is to wait for a task's callbacks.
            if self._ended is not None:
                _tell(self._ended)

    async def watch(
        self,
        *,
        timeout_s: float,
        on_long: Callable[[], Awaitable[None]],
        until: Callable[[], Coroutine[Any, Any, Exception]],
        abandoned: set[asyncio.Task[Any]],
    ) -> None:
        """Wait until it ends or must; one that was not started is started.

        Args:
            timeout_s: how long the handler may take.
            on_long: called when it is still running after its first moments.
            until: then awaited beside it; what it returns is why the handler has to end.
            abandoned: takes up a handler that does not end when it is cancelled.

        Raises:
            TurnTimeoutError: it took too long.
            HandlerExitError: it tried to end the process, or cancelled itself.

        Cancellation: cancels the handler, or what becomes of it, and waits a moment for its end.
        """
        first_moments_s = min(STARTED_AFTER_S, timeout_s)
        if self._work is None:
            self.start()
        else:
            first_moments_s = 0.0
        try:
            await self._watch(first_moments_s, timeout_s, on_long, until)
        finally:
            await self.end(abandoned)
        self.check()

    def check(self) -> None:
        """Raise what it ended with, if it ended badly."""
        work = self._task
        if work.cancelled():
            raise HandlerExitError("CancelledError", "nobody had cancelled it")
        work.result()

    @property
    def _task(self) -> asyncio.Task[None]:
        if self._work is None:
            raise RuntimeError("the attempt was not started")
        return self._work

    async def _watch(
        self,
        first_moments_s: float,
        timeout_s: float,
        on_long: Callable[[], Awaitable[None]],
        until: Callable[[], Coroutine[Any, Any, Exception]],
    ) -> None:
        work = self._task
        if work.done():
            return
        if first_moments_s:
            self._ended = asyncio.get_running_loop().create_future()
            await _first_moments(self._ended, first_moments_s)
        if not (work.done() or self._has_result):
            await on_long()
            reason = await _reason(work, timeout_s - STARTED_AFTER_S, until)
            if reason is not None and not self._has_result:
                raise reason
        if not work.done():
            await asyncio.wait({work})

    async def end(self, abandoned: set[asyncio.Task[Any]]) -> None:
        """Cancel it where it still runs, and wait a moment; *abandoned* takes it up after that."""
        self._is_over = True
        work = self._task
        if not work.done():
            await _end(work, abandoned)
        if work.done():
            # Cancelled before its first step it would be called one that was never awaited.
            self._handler.close()


def _started(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task, and run it as far as it goes at once where Python can do that."""
    if sys.version_info >= (3, 12):
        loop = asyncio.get_running_loop()
        return asyncio.Task(work, loop=loop, name=name, eager_start=True)
    return asyncio.create_task(work, name=name)


async def _first_moments(ended: asyncio.Future[None], seconds: float) -> None:
    timer = asyncio.get_running_loop().call_later(seconds, _tell, ended)
    try:
        await ended
    finally:
        timer.cancel()


def _tell(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


async def _reason(
    work: asyncio.Task[Any],
    seconds: float,
    until: Callable[[], Coroutine[Any, Any, Exception]],
) -> Exception | None:
    """Return why the handler has to end; None when it has ended."""
    watch = asyncio.create_task(until(), name=f"{work.get_name()}.until")
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
