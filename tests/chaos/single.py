"""Faults of one server, of agents, and of what is between them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.chaos.stage import ACK_WAIT, PRESENCE_TTL, PROGRAM, TEAM, Stage
from tests.chaos.verdict import Breach, Verdict
from tests.chaos.waiting import pass_time
from tests.support.agent_process import AgentProcess
from tests.support.proxy import proxied
from threadbus.bus.server import EmbeddedServer, ServerSettings

_TAKEOVER_S: Final = 40.0


async def agents_killed(stage: Stage) -> Verdict:
    """`kill -9` of agents and of a writer, at random moments, each started again at once."""
    async with EmbeddedServer() as server, stage.team(server.url) as team:
        async with stage.writing(server.url), _mortal(stage, server.url) as restart:
            while await stage.rest(0.2, 1.5):
                if stage.chance.random() < 0.25:
                    await restart()
                    stage.count("writer killed")
                    continue
                agent = team[stage.chance.choice(TEAM)]
                await agent.kill()
                await agent.start(wait_ready=False)
                stage.count("agent killed")
        return await stage.settle(server.url)


@asynccontextmanager
async def _mortal(stage: Stage, url: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Run a writer in a process of its own; give what kills it and starts the next one."""
    writer = _MortalWriter(stage, url)
    await writer.start()
    try:
        yield writer.restart
    finally:
        await writer.kill()


class _MortalWriter:
    def __init__(self, stage: Stage, url: str) -> None:
        self._stage = stage
        self._url = url
        self._lives = 0
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, with the journal of its former lives."""
        self._lives += 1
        words = (self._url, "mortal", str(self._stage.journal("mortal")))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.chaos.writing", *words, f"{self._stage.seed + self._lives}", *TEAM),
            env={**os.environ, **self._stage.environment(self._url)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def kill(self) -> None:
        """End it with SIGKILL."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def restart(self) -> None:
        """Kill it and start another one."""
        await self.kill()
        await self.start()


async def server_killed(stage: Stage) -> Verdict:
    """`kill -9` of the server while events are under way; started again after a moment."""
    async with EmbeddedServer() as server, stage.team(server.url):
        async with stage.writing(server.url):
            while await stage.rest(0.5, 4.0):
                await server.kill()
                await stage.rest(0.0, 1.0)
                await server.start()
                stage.count("server killed")
        return await stage.settle(server.url)


async def spread_server_killed(stage: Stage) -> Verdict:
    """The same where the log and the inboxes are spread over several streams."""
    stage.partitions, stage.inboxes = 3, 2
    return await server_killed(stage)


async def agents_paused(stage: Stage) -> Verdict:
    """SIGSTOP of agents beyond the lease of their mentions and their presence.

    Half of the time another process takes the name meanwhile: the one that wakes up must go.
    """
    longest = max(ACK_WAIT, PRESENCE_TTL).total_seconds() + 1.5
    environ: dict[str, str] = {}
    async with EmbeddedServer() as server, stage.team(server.url) as team:
        environ = stage.environment(server.url)
        async with stage.writing(server.url):
            while await stage.rest(0.2, 1.0):
                name = stage.chance.choice(TEAM)
                agent = team[name]
                agent.process.send_signal(signal.SIGSTOP)
                stage.count("agent paused")
                try:
                    await pass_time(longest)
                    if stage.chance.random() < 0.5:
                        team[name] = AgentProcess(f"{PROGRAM}:{name}", environ)
                        await team[name].start()
                        stage.count("name taken over")
                finally:
                    agent.process.send_signal(signal.SIGCONT)
                if team[name] is not agent:
                    await _gone(stage, agent, name)
        return await stage.settle(server.url)


async def _gone(stage: Stage, agent: AgentProcess, name: str) -> None:
    try:
        async with asyncio.timeout(_TAKEOVER_S):
            await agent.process.wait()
    except TimeoutError:
        text = f"a process of {name} goes on {_TAKEOVER_S:.0f} s after its name was taken"
        stage.breach(Breach.UNSOUND, text)
        await agent.kill()


async def server_stalls(stage: Stage) -> Verdict:
    """SIGSTOP pulses on a server that syncs each write."""
    settings = ServerSettings(sync_interval="always")
    async with EmbeddedServer(settings=settings) as server, stage.team(server.url):
        async with stage.writing(server.url):
            while await stage.rest(0.05, 1.0):
                pid = server.pid
                os.kill(pid, signal.SIGSTOP)
                try:
                    await stage.rest(0.05, stage.chance.choice([0.3, 1.0, 6.0]))
                finally:
                    os.kill(pid, signal.SIGCONT)
                stage.count("server stalled")
        return await stage.settle(server.url)


async def server_refuses(stage: Stage) -> Verdict:
    """Connections are cut, refused, and frozen without a word, for moments."""
    async with EmbeddedServer() as server, proxied(server.url) as (proxy, url), stage.team(url):
        async with stage.writing(url):
            while await stage.rest(0.5, 3.0):
                if stage.chance.random() < 0.3:
                    proxy.freeze()
                    stage.count("frozen")
                    await stage.rest(1.0, 4.0)
                    proxy.thaw()
                    continue
                proxy.refuses = stage.chance.random() < 0.7
                stage.count("refused" if proxy.refuses else "cut")
                proxy.cut()
                await stage.rest(0.1, 3.0)
                proxy.refuses = False
        return await stage.settle(server.url)
