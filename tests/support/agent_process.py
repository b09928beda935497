"""Agents as processes of their own, to be killed and started again by tests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

_PROGRAM = """
import asyncio, sys
from threadbus.agents import load_agent, serve
from threadbus.agents.model import ModelSettings
from threadbus.bus import BusSettings

model = ModelSettings.from_env() if "BUS_MODEL" in __import__("os").environ else None
asyncio.run(
    serve(
        load_agent(sys.argv[1]),
        BusSettings.from_env(),
        model=model,
        takeover="--takeover" in sys.argv,
        on_ready=lambda _: print("ready", flush=True),
    )
)
"""


class AgentProcess:
    """One agent in one process."""

    def __init__(self, target: str, environ: Mapping[str, str], *flags: str) -> None:
        self._target = target
        self._environ = {**os.environ, **environ}
        self._flags = flags
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The running process."""
        assert self._process is not None
        return self._process

    async def start(self, *, wait_ready: bool = True) -> None:
        """Start the process, by default until it takes mentions."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PROGRAM,
            self._target,
            *self._flags,
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read(self._process, self._ready))
        if wait_ready:
            await self.ready()

    async def _read(self, process: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
        """Read what it says, its log too, to the end: it stands still before a full pipe."""
        assert process.stdout is not None
        said = b"\n"
        while chunk := await process.stdout.read(4096):
            if not ready.is_set():
                said += chunk
                if b"\nready\n" in said:
                    ready.set()

    async def ready(self) -> None:
        """Wait until it takes mentions."""
        assert self._reading is not None
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                [ready, self._reading], timeout=30, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ready.cancel()
        if not self._ready.is_set():
            code = self.process.returncode
            raise AssertionError(f"{self._target} is not ready; its exit code is {code}")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self.process.returncode is None:
            self.process.kill()
        await self._ended()

    async def terminate(self) -> int:
        """End it with SIGTERM and return its exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        return await self._ended()

    async def _ended(self) -> int:
        code = await self.process.wait()
        if self._reading is not None:
            await self._reading
        return code


@asynccontextmanager
async def agent_process(
    target: str, environ: Mapping[str, str], *flags: str
) -> AsyncGenerator[AgentProcess]:
    """Run an agent for as long as the context lasts."""
    agent = AgentProcess(target, environ, *flags)
    await agent.start(wait_ready=False)
    try:
        await agent.ready()
        yield agent
    finally:
        await agent.kill()
