"""One call of a model: its attempts, its deadlines, and what is measured of it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Final, TypeAlias

from threadbus.agents.errors import ModelTimeoutError, ModelUnavailableError
from threadbus.agents.model.assembly import Assembler
from threadbus.agents.model.messages import Completion, JsonObject
from threadbus.agents.model.settings import ModelSettings
from threadbus.agents.model.wire import TransientError
from threadbus.schemas import ErrorInfo, ModelCalled, as_parts

if TYPE_CHECKING:
    from threadbus.agents.model.transport import Transport

OnDelta: TypeAlias = Callable[[str], Awaitable[None] | None]
OnRestart: TypeAlias = Callable[[], Awaitable[None] | None]

_MAX_BACKOFF_S: Final = 20.0

_log = logging.getLogger(__name__)


class Call:
    """One call, to be run once."""

    def __init__(
        self,
        transport: Transport,
        settings: ModelSettings,
        model: str,
        body: JsonObject,
        on_delta: OnDelta | None,
        on_restart: OnRestart | None,
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._model = model
        self._body = body
        self._on_delta = on_delta
        self._on_restart = on_restart
        self._attempts = 0
        self._deltas_are_void = False
        self._first_token_ns: int | None = None
        # Wall clock for when, monotonic clock for how long.
        self._started_at = time_ns()
        self._start = perf_counter_ns()

    async def run(self) -> Completion:
        """Make attempts until one gives an answer or none is left."""
        seconds = self._settings.deadline.total_seconds()
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._retry(asyncio.get_running_loop().time() + seconds)
        except TimeoutError as error:
            # A timeout of the caller's own passes.
            if not deadline.expired():
                raise
            raise self._timed_out(seconds, "the deadline of the call") from error

    async def _retry(self, end: float) -> Completion:
        while True:
            self._attempts += 1
            try:
                return await self._attempt()
            except TransientError as error:
                wait = self._wait_after(error, end - asyncio.get_running_loop().time())
                _log.warning(
                    "attempt %d to ask %s failed, the next is in %.1f s: %s",
                    self._attempts,
                    self._settings.server,
                    wait,
                    error.reason,
                )
                await asyncio.sleep(wait)

    def _wait_after(self, error: TransientError, left: float) -> float:
        """Return the seconds to wait before the next attempt, or raise if there is none."""
        longest = self._settings.max_wait.total_seconds()
        asked = error.retry_after
        ceiling = self._settings.backoff.total_seconds() * 2.0 ** (self._attempts - 1)
        jitter = random.uniform(0.5, 1)  # noqa: S311 - no secret, only apart from other callers
        wait = max(min(ceiling, _MAX_BACKOFF_S) * jitter, asked or 0)
        if self._attempts <= self._settings.max_retries:
            if asked is not None and asked > longest:
                raise self._given_up(f"{error} (it asks to wait {asked:g} s; {longest:g} is most)")
            if wait < left:
                return wait
        if error.timed_out:
            seconds = self._settings.timeout.total_seconds()
            raise self._timed_out(seconds, "the time of one attempt") from error
        raise self._given_up(error.reason) from error

    def _given_up(self, reason: str) -> ModelUnavailableError:
        return ModelUnavailableError(self._settings.server, self._attempts, reason)

    def _timed_out(self, seconds: float, what: str) -> ModelTimeoutError:
        return ModelTimeoutError(self._settings.server, self._attempts, seconds, what)

    async def _attempt(self) -> Completion:
        seconds = self._settings.timeout.total_seconds()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._ask()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TransientError(f"no whole answer in {seconds:g} s", timed_out=True) from error

    async def _ask(self) -> Completion:
        if self._deltas_are_void:
            self._deltas_are_void = False
            if self._on_restart is not None:
                await awaited(self._on_restart())
        settings = self._settings
        assembler = Assembler(settings.server, settings.max_output_chars, settings.max_tool_calls)
        streamed = self._on_delta is not None
        answers = self._transport.ask(self._model, self._body, stream=streamed)
        async with aclosing(answers):
            async for answer in answers:
                text = assembler.feed(answer)
                if text and self._on_delta is not None:
                    if self._first_token_ns is None:
                        self._first_token_ns = perf_counter_ns() - self._start
                    self._deltas_are_void = True
                    await awaited(self._on_delta(text))
        if not assembler.is_whole:
            raise TransientError("the answer ended in the middle")
        return assembler.completion(self._transport.system, self._attempts)

    def success(self, completion: Completion) -> ModelCalled:
        """Return the record of a call that gave *completion*."""
        return ModelCalled(
            model=completion.model or self._model,
            started_at=self._started_at,
            duration_ns=perf_counter_ns() - self._start,
            input_tokens=completion.usage.input_tokens,
            output_tokens=completion.usage.output_tokens,
            cached_tokens=completion.usage.cached_tokens,
            finish_reason=completion.finish_reason,
            streamed=self._on_delta is not None,
            first_token_ns=self._first_token_ns,
            attempts=self._attempts,
            response_id=completion.response_id,
            system=completion.system,
            tool_calls=len(completion.tool_calls),
            output=as_parts(completion.text) if completion.text else (),
        )

    def failure(self, error: BaseException) -> ModelCalled:
        """Return the record of a call that ended with *error*."""
        return ModelCalled(
            model=self._model,
            started_at=self._started_at,
            duration_ns=perf_counter_ns() - self._start,
            streamed=self._on_delta is not None,
            first_token_ns=self._first_token_ns,
            attempts=max(1, self._attempts),
            system=self._transport.system,
            error=ErrorInfo.of(error),
        )


async def awaited(told: Awaitable[None] | None) -> None:
    """Await what a hook returned, if it is one that must be awaited."""
    if told is not None:
        await told
