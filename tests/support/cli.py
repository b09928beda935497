"""The command `bus` as a person runs it: in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.support.eventually import PATIENCE_S
from threadbus.agents import Agent, AgentRunner, Mention
from threadbus.bus import connect

T = TypeVar("T")

DEADLINE_S = 60.0
NOWHERE = "nats://127.0.0.1:1"
"""No server listens there."""


@dataclass(frozen=True)
class Ran:
    """How one run ended."""

    code: int
    out: str
    err: str

    def json(self, kind: type[T]) -> T:
        """Return what was printed with --json."""
        return msgspec.json.decode(self.out, type=kind)


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables with which nothing of the person who runs the tests is found."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BUS_", "OPENAI_")) and name not in {"COLUMNS", "FORCE_COLOR"}
    }
    return {**kept, "XDG_STATE_HOME": str(home), **(extra or {})}


async def start(
    *arguments: str,
    env: Mapping[str, str],
    stdin: int = DEVNULL,
    stderr: int = PIPE,
    cwd: Path | None = None,
) -> Process:
    """Start the command; the caller ends it."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", "threadbus.agents.cli"),
        *arguments,
        stdin=stdin,
        stdout=PIPE,
        stderr=stderr,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


@asynccontextmanager
async def process(
    *arguments: str,
    env: Mapping[str, str],
    stdin: int = DEVNULL,
    stderr: int = PIPE,
    cwd: Path | None = None,
) -> AsyncGenerator[Process]:
    """Run the command for as long as the context lasts; it is killed if it has not ended."""
    running = await start(*arguments, env=env, stdin=stdin, stderr=stderr, cwd=cwd)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            running.kill()
        # So that no transport is left open.
        await running.communicate()


async def ended(running: Process) -> Ran:
    """Wait for the end of a run."""
    async with asyncio.timeout(DEADLINE_S):
        out, err = await running.communicate()
    return Ran(running.returncode or 0, out.decode(), (err or b"").decode())


async def line_with(running: Process, text: str, *, of: str = "stdout") -> str:
    """Return the next line with *text* in it; fails with what came instead."""
    stream = running.stdout if of == "stdout" else running.stderr
    assert stream is not None
    seen: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE_S * 2):
            while line := (await stream.readline()).decode():
                seen.append(line)
                if text in line:
                    return line
    except TimeoutError:
        seen.append("(nothing more)")
    raise AssertionError(f"no line with {text!r} in:\n{''.join(seen)}")


class Cli:
    """The command, on one server, with a home of its own."""

    def __init__(self, url: str, home: Path, extra: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.home = home
        self.env = environment(home, {"BUS_URL": url, **(extra or {})})

    async def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        """Run the command to its end."""
        async with process(*arguments, env={**self.env, **(env or {})}, cwd=cwd) as running:
            return await ended(running)


@asynccontextmanager
async def living(url: str, *agents: Agent) -> AsyncGenerator[None]:
    """Run agents in this process for as long as the context lasts."""
    async with asyncio.TaskGroup() as tasks:
        runners = [await _started(url, agent, tasks) for agent in agents]
        try:
            yield
        finally:
            for runner in runners:
                runner.stop()


async def _started(url: str, agent: Agent, tasks: asyncio.TaskGroup) -> AgentRunner:
    made: asyncio.Future[AgentRunner] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        async with connect(url, name=agent.name) as bus:
            runner = AgentRunner(agent, bus)
            made.set_result(runner)
            await runner.run()

    tasks.create_task(run(), name=f"tests.agent[{agent.name}]")
    runner = await made
    async with asyncio.timeout(PATIENCE_S):
        await runner.ready.wait()
    return runner


def echo(name: str) -> Agent:
    """Make an agent that answers with what it was told."""
    agent = Agent(name, description="Says it again.")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return f"echo: {mention.text}"

    return agent


def gated(name: str, gate: asyncio.Event) -> Agent:
    """Make an agent that answers once *gate* is set."""
    agent = Agent(name, description="Waits.")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        await mention.progress("waiting at the gate")
        await gate.wait()
        return f"after the gate: {mention.text}"

    return agent
