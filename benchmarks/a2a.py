"""A2A: from a message to its answer, through the gateway and by a bare server of the SDK.

Ours: HTTP to the gateway, a super-task in the log, an agent in a third process, its answer in the
log, HTTP back; everything stored and acknowledged. The other side: the SDK's server, its executor
in the same process, its tasks in memory. The same again while many streams of tasks that go on are
open; then many streams at once, from messages to ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.a2a_server import PARK
from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.processes import RUNNER_AGENT, running
from benchmarks.server import private_server
from threadbus.bus import connect
from threadbus.schemas import AgentCard

_QUESTION: Final = "Which of the two numbers is right, the ledger's or the report's?"
_PER_ROUND: Final = 200
_TURNS: Final = 8
_WARM_UP: Final = 50
_STREAMS: Final = 500
_LIMIT_S: Final = 60.0
_AGAINST: Final = "bare a2a-sdk server"
_HEADERS: Final = {"A2A-Version": "1.0", "Content-Type": "application/json"}
_END: Final = "TASK_STATE_COMPLETED"
_PARKED_AGENT: Final = "parked"


async def measure(options: Options) -> Sequence[Figure]:
    """Return the time from a message to its answer, and of many streams at once."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(private_server())
        home = stack.enter_context(TemporaryDirectory())
        say("A2A, starting every side")
        await stack.enter_async_context(running("agent", url))
        environ = {**os.environ, "BUS_URL": url, "XDG_STATE_HOME": home}
        words = ("threadbus.agents.cli", "gateway", "a2a", "--http", "127.0.0.1:0", "--json")
        ours = await stack.enter_async_context(
            _served(environ, *words, "--team", RUNNER_AGENT, "--rate", "100000")
        )
        bare = await stack.enter_async_context(_served(environ, "benchmarks.a2a_server"))
        # One beside those of the streams that stay open.
        limits = httpx.Limits(max_connections=_STREAMS + 1, max_keepalive_connections=_STREAMS)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=_LIMIT_S, limits=limits))
        sides = (ours, bare)
        for side in sides:
            await _times(http, side, _WARM_UP)
        async with connect(url, name="bench") as bus:
            # Known, but never at work: a task of it goes on.
            await bus.registry.register(AgentCard(name=_PARKED_AGENT), holder="bench")
        parked = {ours: f"{ours.removesuffix('/rpc')}/agents/{_PARKED_AGENT}/rpc", bare: bare}
        asked: dict[str, list[float]] = {side: [] for side in sides}
        crowded: dict[str, list[float]] = {side: [] for side in sides}
        streamed: dict[str, list[float]] = {side: [] for side in sides}
        count = options.count(_PER_ROUND)
        for turn in range(options.rounds):
            say(f"A2A, round {turn + 1} of {options.rounds}")
            times: dict[str, list[float]] = {side: [] for side in sides}
            for part in range(_TURNS):
                for side in sides if part % 2 == 0 else reversed(sides):
                    times[side] += await _times(http, side, max(1, count // _TURNS))
            for side in sides:
                asked[side].append(statistics.median(times[side]))
            for side in sides if turn % 2 == 0 else reversed(sides):
                async with _open_streams(http, parked[side], options.count(_STREAMS)):
                    times[side] = await _times(http, side, count)
                crowded[side].append(statistics.median(times[side]))
            for side in sides if turn % 2 == 0 else reversed(sides):
                streamed[side].append(await _at_once(http, side, options.count(_STREAMS)))
    return [
        Figure("message to answer over A2A", _AGAINST, "ms", asked[ours], asked[bare], Target(1.5)),
        Figure(
            f"the same while {options.count(_STREAMS)} streams are open",
            _AGAINST,
            "ms",
            crowded[ours],
            crowded[bare],
        ),
        Figure(
            f"{options.count(_STREAMS)} streams at once, to their ends",
            _AGAINST,
            "ms",
            streamed[ours],
            streamed[bare],
        ),
    ]


@asynccontextmanager
async def _served(environ: dict[str, str], *words: str) -> AsyncGenerator[str]:
    """Run a server in a process of its own; give the address of its JSON-RPC."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *words),
        env=environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    if process.stdout is None:
        raise RuntimeError("a pipe is missing")
    try:
        async with asyncio.timeout(_LIMIT_S):
            line = (await process.stdout.readline()).decode().strip()
        url: str = json.loads(line)["url"] if line.startswith("{") else line
        yield f"{url}/rpc"
    finally:
        process.terminate()
        await process.wait()


def _request(method: str, text: str = _QUESTION) -> dict[str, Any]:
    part = {"text": text}
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [part]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


async def _times(http: httpx.AsyncClient, url: str, count: int) -> list[float]:
    """Return the milliseconds of each of *count* messages, one after the other."""
    times: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        answer = await http.post(url, json=_request("SendMessage"), headers=_HEADERS)
        times.append((time.perf_counter() - started) * 1e3)
        if _END not in answer.text:
            raise RuntimeError(f"no answer: {answer.text[:300]}")
    return times


@asynccontextmanager
async def _open_streams(http: httpx.AsyncClient, url: str, count: int) -> AsyncGenerator[None]:
    """Hold streams open, each of a task of its own that does not end."""

    async def follow() -> None:
        request = _request("SendStreamingMessage", PARK)
        async with http.stream("POST", url, json=request, headers=_HEADERS) as response:
            async for text in response.aiter_text():
                if '"task"' in text:
                    await entered.wait()

    entered = asyncio.Barrier(count + 1)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(follow(), name="benchmark.a2a.open") for _ in range(count)]
        async with asyncio.timeout(_LIMIT_S):
            await entered.wait()
        yield
        for task in held:
            task.cancel()


async def _at_once(http: httpx.AsyncClient, url: str, count: int) -> float:
    """Return the milliseconds until *count* streams, begun at once, have all ended."""

    async def stream() -> None:
        request = _request("SendStreamingMessage")
        async with http.stream("POST", url, json=request, headers=_HEADERS) as response:
            text = [chunk async for chunk in response.aiter_text()]
        if _END not in "".join(text):
            raise RuntimeError("a stream ended without its task")

    started = time.perf_counter()
    async with asyncio.timeout(_LIMIT_S), asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(stream(), name="benchmark.a2a")
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main(__doc__, [measure])
