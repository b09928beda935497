"""Clocks that jump: those of agents, and that of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.chaos.server_clock import ServerClock
from tests.chaos.stage import PROGRAM, TEAM, Stage
from tests.chaos.verdict import Verdict
from tests.support.agent_process import AgentProcess
from tests.support.proxy import proxied
from threadbus.bus.server import EmbeddedServer

_SITE: Final = Path(__file__).parent / "clock"
_AGENT_JUMPS_S: Final = (-3600.0, -60.0, -2.0, 0.5, 45.0, 7200.0)
_SERVER_JUMPS_S: Final = (-4 * 3600, -600, -150, -2, 0, 5, 150, 600, 3600, 4 * 3600)
"""To how far from the machine's clock. Ids are remembered for two minutes: some go beyond."""


async def clocks_jump(stage: Stage) -> Verdict:
    """The clocks of agents jump forwards and back, by seconds and by hours, each on its own."""
    files = {name: stage.folder / f"{name}.clock" for name in TEAM}
    for path in files.values():
        path.write_text("0", encoding="ascii")
    python_path = f"{_SITE}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    async with EmbeddedServer() as server:
        team: dict[str, AgentProcess] = {}
        try:
            for name in TEAM:
                environ = stage.environment(
                    server.url, PYTHONPATH=python_path, CHAOS_CLOCK=str(files[name])
                )
                team[name] = AgentProcess(f"{PROGRAM}:{name}", environ)
                await team[name].start()
            async with stage.writing(server.url):
                while await stage.rest(0.1, 1.0):
                    path = files[stage.chance.choice(TEAM)]
                    part = path.with_suffix(".part")
                    part.write_text(str(stage.chance.choice(_AGENT_JUMPS_S)), encoding="ascii")
                    part.replace(path)
                    stage.count("clock jumped")
            return await stage.settle(server.url)
        finally:
            for agent in team.values():
                await agent.kill()


async def server_clock_jumps(stage: Stage) -> Verdict:
    """The clock of the server jumps by minutes and by hours, forwards and back.

    Around some jumps all connections are cut, so that what was sent is sent again; agents are
    killed in the middle of their turns, and the server now and then.
    """
    async with (
        EmbeddedServer() as server,
        proxied(server.url) as (proxy, url),
        stage.team(url) as team,
    ):
        clock = ServerClock(server.pid)
        async with stage.writing(url):
            while await stage.rest(0.2, 2.0):
                does = stage.chance.choice(["cut", "cut", "agent", "server", "", ""])
                if does == "cut":
                    proxy.cut()
                    stage.count("connections cut")
                clock.seconds = stage.chance.choice(_SERVER_JUMPS_S)
                stage.count("clock jumped")
                await stage.rest(0.0, 0.3)
                if does == "agent":
                    agent = team[stage.chance.choice(TEAM)]
                    await agent.kill()
                    await agent.start(wait_ready=False)
                    stage.count("agent killed")
                elif does == "server":
                    await server.kill()
                    await server.start()
                    clock = ServerClock(server.pid)
                    stage.count("server killed")
        return await stage.settle(server.url)
