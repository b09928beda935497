"""A foreign MCP server, kept reachable: connected, listed, looked after, connected again.

The SDK's client dies with its connection and takes everything inside its context along. So it
lives in a task of its own, calls reach it through a queue, and whatever happens to it becomes an
error of the calls that were under way. It is made again after a pause that grows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from threadbus.bus import SteadyLog
from threadbus.gateways.errors import RemoteServerError
from threadbus.gateways.text import clean_json
from threadbus.schemas import clean_text, shorten

MAX_TOOLS: Final = 1_000
"""Tools of one server that are looked at."""

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one message of a server over HTTP."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
_SETTLED_S: Final = 60.0
_CONNECT_S: Final = 30.0
_LOOK_EVERY_S: Final = 5.0
_LOOK_S: Final = 10.0
_UP_S: Final = 30.0
_MAX_CALLS: Final = 64
_GONE: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST})
"""What a call ends with when the process has died, or the server knows the session no more."""

_log: Final = SteadyLog("threadbus.gateways.mcp")

Report = Callable[[str, float | None], Awaitable[None]]
"""Told how far a call is: a note, and a share from 0 to 1 where it is known."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a server is: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    """Variables for the command, beside those that are safe to hand on."""
    url: str = ""
    token: str = ""
    """Sent as a bearer token with the URL."""
    label: str = ""
    """How it is called in messages."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Connect to it."""
        if not self.url:
            command, *arguments = self.command
            server = StdioServerParameters(command=command, args=arguments, env=self.env)
            async with Client(server, read_timeout_seconds=_CONNECT_S) as client:
                yield client
            return
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        limits = httpx2.Limits(max_connections=_MAX_CALLS * 2)
        async with httpx2.AsyncClient(headers=headers, timeout=_CONNECT_S, limits=limits) as http:
            transport = streamable_http_client(
                self.url, http_client=http, max_sse_event_size=MAX_EVENT_BYTES
            )
            async with Client(transport, read_timeout_seconds=_CONNECT_S) as client:
                yield client


@dataclass(kw_only=True)
class _Asked:
    """A call on its way to the server."""

    tool: str
    arguments: dict[str, Any]
    timeout_s: float
    report: Report
    result: asyncio.Future[types.CallToolResult]


class RemoteServer:
    """A server as its user sees it: up or not, with tools that can be called while it is up."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._queue: asyncio.Queue[_Asked] = asyncio.Queue(_MAX_CALLS)
        self._change = asyncio.Condition()
        self.is_up = False
        self.tools: tuple[types.Tool, ...] = ()
        self.title = ""
        self.about = ""
        """What the server says of itself."""
        self.problem = ""
        """Why it is not up."""

    async def changed(self, unlike: tuple[bool, tuple[types.Tool, ...]]) -> None:
        """Wait until it goes up or down, or its tools change, from what was seen.

        Cancellation: safe.
        """
        async with self._change:
            await self._change.wait_for(lambda: self.seen != unlike)

    @property
    def seen(self) -> tuple[bool, tuple[types.Tool, ...]]:
        """What :meth:`changed` compares with."""
        return self.is_up, self.tools

    async def call(
        self, tool: str, arguments: dict[str, Any], timeout_s: float, report: Report
    ) -> types.CallToolResult:
        """Call a tool.

        Args:
            tool: its name on the server.
            arguments: what it takes; what cannot travel in them is replaced.
            timeout_s: how long it may take.
            report: told of its progress.

        Raises:
            RemoteServerError: the server is not up, died, refused, or took too long.

        Cancellation: the server is told that nobody waits any more.
        """
        await self.until_up()
        result: asyncio.Future[types.CallToolResult] = asyncio.get_running_loop().create_future()
        clean = clean_json(arguments, what="the arguments")
        asked = _Asked(
            tool=tool, arguments=clean, timeout_s=timeout_s, report=report, result=result
        )
        try:
            self._queue.put_nowait(asked)
        except asyncio.QueueFull as error:
            raise RemoteServerError(
                self._target.label, f"{_MAX_CALLS} calls wait for it already"
            ) from error
        return await result

    async def until_up(self) -> None:
        """Wait a moment for a server that is being started again.

        Raises:
            RemoteServerError: it did not come up.

        Cancellation: safe.
        """
        try:
            async with asyncio.timeout(_UP_S), self._change:
                await self._change.wait_for(lambda: self.is_up)
        except TimeoutError as error:
            raise RemoteServerError(self._target.label, self.problem or "it is not up") from error

    async def run(self) -> None:
        """Keep it connected until cancelled."""
        pause = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._connected()
                problem = "the connection ended"
            except (Exception, BaseExceptionGroup) as error:
                problem = _why(error)
                if isinstance(error, BaseExceptionGroup) and _is_cancelled():
                    raise asyncio.CancelledError from error
            await self._down(problem)
            if loop.time() - began > _SETTLED_S:
                pause = FIRST_PAUSE_S
            _log.warning(
                "MCP server lost", server=self._target.label, reason=problem, again_s=pause
            )
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - not a secret
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _connected(self) -> None:
        async with asyncio.timeout(_CONNECT_S) as limit, self._target.client() as client:
            tools = await _all_tools(client)
            limit.reschedule(None)
            info = client.server_info
            self.title = "" if info is None else clean_text(info.title or info.name)
            self.about = clean_text(client.instructions or "")
            await self._up(tools)
            async with asyncio.TaskGroup() as calls:
                calls.create_task(self._look_after(client), name="threadbus.mcp.remote.look")
                while True:
                    asked = await self._queue.get()
                    calls.create_task(
                        self._perform(client, asked), name=f"threadbus.mcp.remote[{asked.tool}]"
                    )

    async def _look_after(self, client: Client) -> None:
        """Look now and then whether it is there, and whether its tools are others."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            async with asyncio.timeout(_LOOK_S):
                tools = await _all_tools(client)
            if tools != self.tools:
                await self._up(tools)

    async def _perform(self, client: Client, asked: _Asked) -> None:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = min(1.0, max(0.0, progress / total)) if total else None
            await asked.report(clean_text(message or f"{progress:g}"), share)

        work = asyncio.ensure_future(
            client.call_tool(
                asked.tool,
                asked.arguments,
                read_timeout_seconds=asked.timeout_s,
                progress_callback=on_progress,
            )
        )
        asked.result.add_done_callback(lambda _: work.cancel())
        try:
            result = await work
        except asyncio.CancelledError:
            self._refuse(asked, "it ended during the call")
            if not work.cancelled():
                raise
        except MCPError as error:
            is_lost = error.error.code in _GONE
            # Nothing more is sent to it from here on.
            self.is_up = self.is_up and not is_lost
            self._refuse(asked, f"{error.error.message} ({error.error.code})")
            if is_lost:
                raise
        except Exception as error:
            # Whatever the client raises: this call has failed, and the session tells by itself.
            self._refuse(asked, _why(error))
        else:
            if not asked.result.done():
                asked.result.set_result(result)

    def _refuse(self, asked: _Asked, reason: str) -> None:
        if not asked.result.done():
            asked.result.set_exception(RemoteServerError(self._target.label, reason))

    async def _up(self, tools: tuple[types.Tool, ...]) -> None:
        async with self._change:
            self.is_up, self.tools, self.problem = True, tools, ""
            self._change.notify_all()

    async def _down(self, problem: str) -> None:
        async with self._change:
            self.is_up, self.problem = False, problem
            self._change.notify_all()
        while not self._queue.empty():
            self._refuse(self._queue.get_nowait(), problem)


async def _all_tools(client: Client) -> tuple[types.Tool, ...]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MAX_TOOLS:
            return tuple(tools[:MAX_TOOLS])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _why(error: BaseException) -> str:
    """Return the first cause inside groups of errors, in a few words."""
    if isinstance(error, BaseExceptionGroup):
        return _why(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    text = str(error) or type(error).__name__
    return shorten(f"{type(error).__name__}: {text}" if str(error) else text, 300)
