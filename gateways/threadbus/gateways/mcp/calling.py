"""Running tools for hosts: one task for each call, ended with its host, errors put into words.

A call runs in a task of the gateway and not in that of the request: when a host goes away, the
cleaning up (giving mentions back, above all) must not be cut short with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from threadbus.bus import SteadyLog
from threadbus.gateways.errors import StoppingError, UnknownToolError
from threadbus.gateways.mcp.calls import Answer, Call, InputNeeded
from threadbus.gateways.mcp.desk import Desk
from threadbus.gateways.mcp.directory import Directory
from threadbus.gateways.mcp.failures import Failure, bad_arguments, explain, internal
from threadbus.gateways.mcp.toolbox import ALIASES, TOOLS, Tool, ask_tool
from threadbus.gateways.mcp.wire import (
    QUESTION,
    answer_in,
    failure_of,
    input_required,
    question_form,
    result_of,
)
from threadbus.schemas import ThreadbusError, clean_text, nearest_names

Context = ServerRequestContext[Any, Any]

TELL_EVERY_S: Final = 5.0
"""Seconds after which a host is told that a call still runs."""

LIMIT_S: Final = 25.0
"""Seconds that a call may take which waits for nobody but the bus: hosts give up after 60."""

_LOOK_EVERY_S: Final = 1.0
_MOMENT_S: Final = 0.1
_log: Final = SteadyLog("threadbus.gateways.mcp")


def is_modern(ctx: Context) -> bool:
    """Whether a request is of the newer protocol, in which each stands for itself."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


class Caller:
    """Runs the tools of one gateway process."""

    def __init__(
        self, directory: Directory, tasks: asyncio.TaskGroup, stopping: asyncio.Event
    ) -> None:
        self._directory = directory
        self._tasks = tasks
        self._stopping = stopping
        self.running = 0
        """Calls that run now."""

    async def call(
        self, ctx: Context, desk: Desk, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool; whatever goes wrong becomes a result that says what to do.

        Cancellation: a tool that waits stops; one that says something goes on to its end.
        """
        try:
            tool = await self._find(params.name, desk)
            arguments = tool.read(params.arguments)
            call = self._call(ctx, desk, params)
            return await self._run(ctx, tool, call, arguments)
        except InputNeeded as needed:
            return input_required(needed.question, needed.state)
        except msgspec.ValidationError as error:
            return failure_of(_wrong(params.name, str(error)))
        except ThreadbusError as error:
            return failure_of(explain(error, desk.name))
        except TimeoutError:
            return failure_of(_silent())
        except Exception as error:
            # What is inside must not get out, and one call must not end the others.
            reference = secrets.token_hex(4)
            _log.exception(
                "a call failed", tool=params.name, reference=reference, kind=type(error).__name__
            )
            return failure_of(internal(reference))

    async def _find(self, name: str, desk: Desk) -> Tool:
        tool = TOOLS.get(name) or ALIASES.get(name)
        if tool is not None:
            return tool
        agent = await self._directory.asked_by(name, desk.name)
        if agent is None:
            raise UnknownToolError(name, nearest_names(name, [*TOOLS, *ALIASES]))
        return ask_tool(name, agent)

    def _call(self, ctx: Context, desk: Desk, params: types.CallToolRequestParams) -> Call:
        meta = cast("Mapping[str, Any]", ctx.meta or {})
        capabilities = ctx.session.client_capabilities
        can_elicit = capabilities is not None and capabilities.elicitation is not None
        traceparent = meta.get("traceparent")
        asks: Any = "never"
        if can_elicit:
            asks = "again" if is_modern(ctx) else "live" if ctx.session.can_send_request else asks
        return Call(
            desk,
            self._directory,
            _Progress(ctx).tell,
            wants_progress=meta.get("progress_token") is not None,
            asks=asks,
            elicit=_elicit(ctx),
            answer=_answer(params),
            traceparent=traceparent if isinstance(traceparent, str) else "",
        )

    async def _run(
        self, ctx: Context, tool: Tool, call: Call, arguments: Any
    ) -> types.CallToolResult:
        with call.desk.busy(tool.name):
            self.running += 1
            work = self._tasks.create_task(
                _settled(tool.run(call, arguments), None if tool.waits else LIMIT_S),
                name=f"threadbus.mcp.call[{tool.name}]",
            )
            work.add_done_callback(self._ended)
            if tool.waits:
                outcome = await self._accompanied(ctx, call, work)
            else:
                outcome = await asyncio.shield(work)
        if isinstance(outcome, BaseException):
            raise outcome
        result = result_of(outcome, call.attached)
        if call.at_delivery is not None and not await _is_gone(ctx):
            call.at_delivery()
        return result

    async def _accompanied(self, ctx: Context, call: Call, work: asyncio.Task[Any]) -> Any:
        """Wait for a call that waits; it ends when its host goes or the gateway stops."""
        started: list[asyncio.Task[Any]] = [work]
        try:
            # Most end in a moment, and need nobody beside them.
            done, _ = await asyncio.wait({work}, timeout=_MOMENT_S)
            if done:
                return work.result()
            stopping = asyncio.create_task(self._stopping.wait(), name="threadbus.mcp.stopping")
            beside = asyncio.create_task(_beside(ctx, call), name="threadbus.mcp.beside")
            started += [stopping, beside]
            await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if beside.done():
                beside.result()
            # The gateway stops, or the host has gone and reads no answer.
            raise StoppingError
        finally:
            # Not awaited: each cleans up by itself, also when this request is being cut short.
            for task in started:
                task.cancel()

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self.running -= 1


async def _settled(work: Awaitable[Any], limit_s: float | None) -> Any:
    """Return what a call gives or raises: a task group would end with the first error."""
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except Exception as error:
        return error


async def _beside(ctx: Context, call: Call) -> None:
    """Tell the host now and then that its call still runs; return once the host has gone."""
    waited = 0.0
    told = 0.0
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        waited += _LOOK_EVERY_S
        if await _is_gone(ctx):
            return
        if waited - told >= TELL_EVERY_S:
            told = waited
            await call.progress(f"waiting for {waited:.0f} s", None)


async def _is_gone(ctx: Context) -> bool:
    """Whether nobody can get the result any more.

    With the newer protocol the request is cut short instead. With the older one the SDK lets a
    call run on for a host that may come back for its result; here it comes back by its cursor.
    """
    request = ctx.request
    if is_modern(ctx) or not isinstance(request, Request):
        return False
    return await request.is_disconnected()


class _Progress:
    """Tells the host how far a call is, where it asked for that."""

    def __init__(self, ctx: Context) -> None:
        self._session = ctx.session
        self._told = 0

    async def tell(self, note: str, fraction: float | None) -> None:
        """Tell a note; the numbers only say that it goes on, unless the share is known."""
        self._told += 1
        share = "" if fraction is None else f" ({fraction:.0%})"
        try:
            await self._session.report_progress(self._told, None, f"{clean_text(note)}{share}")
        except Exception as error:
            # A host that has gone is seen elsewhere; telling it something must not end the call.
            _log.debug("progress not told", reason=str(error))


def _elicit(ctx: Context) -> Callable[[str], Awaitable[str | None]]:
    async def elicit(question: str) -> str | None:
        elicited = await ctx.session.elicit_form(question, question_form(), ctx.request_id)
        return answer_in(elicited)

    return elicit


def _answer(params: types.CallToolRequestParams) -> Answer | None:
    """Return what came back for a question, where the call is made again with it."""
    if params.request_state is None:
        return None
    given = (params.input_responses or {}).get(QUESTION)
    text = answer_in(given) if isinstance(given, types.ElicitResult) else None
    return Answer(params.request_state, text)


def _wrong(name: str, reason: str) -> Failure:
    tool = TOOLS.get(name) or ALIASES.get(name)
    what, _, where = reason.partition(" - at ")
    place = where.strip("`").removeprefix("$.").removeprefix("$")
    words = f"argument {place}: {what}" if place else what
    return bad_arguments(name, words, "" if tool is None else tool.usage())


def _silent() -> Failure:
    return Failure(
        text="The bus does not answer at the moment, so it is not known whether this was stored. "
        "Try again soon, with the same idempotency_key where the tool takes one.",
        kind="Timeout",
    )
