"""Ask an agent through the MCP gateway, against a bare server of the SDK that answers by itself.

The bare side: a process with an `MCPServer` of the SDK and one tool, which has the answer. Ours: a
gateway process; the question is opened as a super-task, an agent in a third process is woken,
answers, and the answer comes back; everything is stored. The same client calls both. Then the same
again while 200 other hosts wait for mentions at the gateway.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.figures import Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.processes import RUNNER_AGENT, running
from benchmarks.server import private_server
from threadbus.gateways.principals import add_token

Ask: TypeAlias = Callable[[], Awaitable[object]]

_QUESTION: Final = "Which of the two numbers is right, the ledger's or the report's?"
_ANSWER: Final = "The report is right: row 17 of the ledger is counted twice."
_PER_ROUND: Final = 100
_TURNS: Final = 4
_WARM_UP: Final = 20
_PARKED: Final = 200
_PARKED_FOR_S: Final = 50
_PATIENCE_S: Final = 60.0
_TARGET: Final = Target(1.5)


async def measure(options: Options) -> Sequence[Figure]:
    """Return the time of an ask at the median, and the same with many who wait."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(private_server())
        say("MCP gateway, starting every side")
        await stack.enter_async_context(running("agent", url))
        tokens = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "tokens.json"
        asker = add_token(tokens, "asker")
        waiting = [add_token(tokens, f"waits-{n}") for n in range(options.count(_PARKED))]
        bare = await stack.enter_async_context(_process("-m", "benchmarks.mcp_gateway", "--bare"))
        words = ["-m", "threadbus.agents.cli", "gateway", "mcp", "--http", "127.0.0.1:0"]
        words += ["--tokens", str(tokens), "--url", url, "--json"]
        gateway = await stack.enter_async_context(_process(*words))
        sides = {
            "bare": await stack.enter_async_context(_asking(bare, "")),
            "gateway": await stack.enter_async_context(_asking(gateway, asker)),
        }
        for side in sides.values():
            await _times(side, _WARM_UP)
        alone: list[dict[str, float]] = []
        crowded: list[dict[str, float]] = []
        for turn in range(options.rounds):
            say(f"MCP gateway, round {turn + 1} of {options.rounds}")
            count = options.count(_PER_ROUND)
            alone.append(await _round(sides, count))
            async with _parked(gateway, waiting):
                crowded.append(await _round(sides, count))
    return [
        Figure(
            "ask through the MCP gateway",
            "bare SDK server",
            "µs",
            [one["gateway"] for one in alone],
            [one["bare"] for one in alone],
            _TARGET,
        ),
        Figure(
            f"the same while {len(waiting)} hosts wait for mentions",
            "ask through the MCP gateway",
            "µs",
            [one["gateway"] for one in crowded],
            [one["gateway"] for one in alone],
        ),
    ]


async def _round(sides: dict[str, Ask], count: int) -> dict[str, float]:
    """Return the median of each side, asked a few at a time in turn."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(_TURNS):
        for name in names if turn % 2 == 0 else reversed(names):
            times[name] += await _times(sides[name], max(1, count // _TURNS))
    return {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}


async def _times(ask: Ask, count: int) -> list[float]:
    """Return the microseconds of each of *count* calls, one after the other."""
    times: list[float] = []
    async with asyncio.timeout(_PATIENCE_S + count):
        for _ in range(count):
            started = time.perf_counter()
            await ask()
            times.append((time.perf_counter() - started) * 1e6)
    return times


@asynccontextmanager
async def _asking(url: str, token: str) -> AsyncGenerator[Ask]:
    """Connect the client of the SDK, and ask by the tool `ask`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await client.list_tools()

        async def ask() -> None:
            result = await client.call_tool("ask", {"agent": RUNNER_AGENT, "question": _QUESTION})
            if result.is_error:
                raise RuntimeError(str(result.content))

        yield ask


@asynccontextmanager
async def _parked(url: str, tokens: Sequence[str]) -> AsyncGenerator[None]:
    """Have a host wait for mentions with each of *tokens*; they vanish at the end."""
    limits = httpx2.Limits(max_connections=len(tokens) + 10)
    meta: dict[str, object] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    def call(tool: str, arguments: dict[str, object]) -> str:
        params: dict[str, object] = {"name": tool, "arguments": arguments, "_meta": meta}
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    async def wait(http: httpx2.AsyncClient, token: str) -> None:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
        }
        there = headers | {"Mcp-Name": "list_threads"}
        # Once it has had an answer, the host is an agent and its wait begins at once.
        await http.post(url, content=call("list_threads", {"limit": 1}), headers=there)
        parked.release()
        waits = headers | {"Mcp-Name": "wait_for_mentions"}
        while True:
            body = call("wait_for_mentions", {"timeout_s": _PARKED_FOR_S})
            await http.post(url, content=body, headers=waits)

    parked = asyncio.Semaphore(0)
    async with httpx2.AsyncClient(limits=limits, timeout=_PATIENCE_S * 2) as http:
        tasks = [asyncio.create_task(wait(http, token)) for token in tokens]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for _ in tokens:
                    await parked.acquire()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@asynccontextmanager
async def _process(*words: str) -> AsyncGenerator[str]:
    """Run a server until the end; yields the URL that it prints as JSON."""
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE)
    assert process.stdout is not None  # noqa: S101
    try:
        async with asyncio.timeout(_PATIENCE_S):
            line = await process.stdout.readline()
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        await process.wait()


async def _serve_bare() -> None:
    """Serve the tool `ask`, which has the answer, until SIGTERM."""
    from mcp.server import MCPServer

    from threadbus.agents import stopping_on_signals
    from threadbus.gateways.web.serving import Address, serving

    server = MCPServer("bare")

    @server.tool()
    async def ask(agent: str, question: str) -> dict[str, str]:
        """Answer."""
        return {"status": "answered", "by": agent, "text": _ANSWER}

    stop = asyncio.Event()
    async with (
        stopping_on_signals(stop.set),
        serving(server.streamable_http_app(), Address("127.0.0.1", 0)) as served,
    ):
        print(json.dumps({"url": f"{served.url}/mcp"}), flush=True)
        await stop.wait()


if __name__ == "__main__":
    if "--bare" in sys.argv:
        asyncio.run(_serve_bare())
    else:
        main(__doc__, [measure])
