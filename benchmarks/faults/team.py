"""An agent in an OS process of its own, to be killed, stopped or kept waiting.

    python -m benchmarks.faults.team NAME URL hang|slow|prompt

It says ``ready`` when it takes mentions and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

from threadbus.agents import Agent, Mention, serve
from threadbus.bus import BusSettings

_ACK_WAIT = timedelta(seconds=2)
_SLOW_S = 1.9
_STARTED_IN_S = 60.0


async def act(name: str, url: str, manner: str) -> None:
    """Run the agent until standard input ends."""
    agent = Agent(name)

    @agent.on_mention
    async def handle(_mention: Mention) -> str:  # pyright: ignore[reportUnusedFunction]
        if manner == "hang":
            await asyncio.Event().wait()
        if manner == "slow":
            await asyncio.sleep(_SLOW_S)
        return "There are twelve rows."

    def ready(_runner: object) -> None:
        print("ready", flush=True)

    settings = BusSettings(url=url, ack_wait=_ACK_WAIT)
    serving = asyncio.create_task(
        serve(agent, settings, takeover=True, on_ready=ready), name="serve"
    )
    loop = asyncio.get_running_loop()
    ended = loop.create_task(asyncio.to_thread(sys.stdin.read), name="stdin")
    ended.add_done_callback(lambda _: serving.cancel())
    with contextlib.suppress(asyncio.CancelledError):
        await serving


class Process:
    """One such process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def kill(self) -> None:
        """End it as a crash would."""
        if self._process.returncode is None:
            # Also one that was stopped.
            self._process.kill()
        await self._process.wait()

    def stop(self) -> None:
        """Stop it in its tracks."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)


@asynccontextmanager
async def process(name: str, url: str, manner: str) -> AsyncGenerator[Process]:
    """Run an agent as long as the context lasts, or until it is killed."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.faults.team", name, url, manner),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    running = Process(started)
    try:
        out = cast("asyncio.StreamReader", started.stdout)
        async with asyncio.timeout(_STARTED_IN_S):
            line = await out.readline()
        if line != b"ready\n":
            raise RuntimeError(f"the agent {name} ended with {started.returncode}")
        yield running
    finally:
        await running.kill()


if __name__ == "__main__":
    asyncio.run(act(*sys.argv[1:4]))
