"""Agents of one team on two hosts, with a server on each: namespaces whose link is cut."""

from __future__ import annotations

import sys
from asyncio import timeout
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tests.support.busreplay import COMMAND
from tests.support.cli import DEADLINE_S, environment, line_with
from tests.support.configured_servers import ConfiguredServer
from tests.support.eventually import eventually
from tests.support.invariants import violations
from tests.support.two_hosts import Host, TwoHosts, two_hosts
from threadbus.schemas import AssignmentFinished, Recorded, TaskId, decode_event

BUS = (sys.executable, "-m", "threadbus.agents.cli")
AGENTS = "tests/support/hosts_agents.py"


class _Answer(msgspec.Struct):
    task: TaskId
    status: str
    answer: str


class _Line(msgspec.Struct):
    seq: int
    event: msgspec.Raw


class _Team:
    """The hosts, and the commands that run on them."""

    def __init__(self, hosts: TwoHosts, folder: Path) -> None:
        self.hosts = hosts
        self._folder = folder
        self._running: list[Process] = []

    def _server(self, host: Host) -> ConfiguredServer:
        return self.hosts.hub_server if host is self.hosts.hub else self.hosts.leaf_server

    async def start(self, host: Host, *words: str) -> Process:
        """Start a command of the bus on a host, which knows the server of that host only."""
        variables = {"BUS_URL": self._server(host).url, "HOSTS_FOLDER": str(self._folder)}
        log = self._folder / f"{len(self._running)}-{Path(words[-1]).name}.log"
        running = await host.start(*words, env=environment(self._folder, variables), log=log)
        self._running.append(running)
        return running

    async def agent(self, host: Host, name: str) -> None:
        """Run an agent on a host."""
        running = await self.start(host, *BUS, "run", "--json", f"{AGENTS}:{name}")
        await line_with(running, f'"agent":"{name}"')

    async def ask(self, host: Host, text: str, *words: str) -> Process:
        """Ask the team from a host."""
        return await self.start(host, *BUS, "ask", "--json", text, *words)

    async def log_of(self, host: Host, task: TaskId) -> list[Recorded]:
        """Read the log of a super-task as it is seen from a host."""
        reading = await self.start(host, COMMAND, task, "--format", "jsonl")
        rows = [msgspec.json.decode(line, type=_Line) for line in (await out(reading)).splitlines()]
        return [Recorded(row.seq, decode_event(bytes(row.event))) for row in rows]

    async def end(self) -> None:
        """End everything that still runs."""
        for running in self._running:
            if running.returncode is None:
                running.kill()
            await running.communicate()


@asynccontextmanager
async def team(folder: Path) -> AsyncGenerator[_Team]:
    """Run the lead on the host with the streams, and the worker on the other."""
    async with two_hosts(folder) as hosts:
        running = _Team(hosts, folder)
        try:
            await running.agent(hosts.leaf, "far")
            await running.agent(hosts.hub, "lead")
            yield running
        finally:
            await running.end()


async def out(running: Process) -> bytes:
    """Return what a command prints until its end."""
    async with timeout(DEADLINE_S):
        said, _ = await running.communicate()
    assert running.returncode == 0
    return said


async def answer(running: Process) -> _Answer:
    """Return the answer that a command waits for."""
    return msgspec.json.decode(await out(running), type=_Answer)


async def test_a_team_on_two_hosts_loses_nothing_when_the_link_is_cut(tmp_path: Path) -> None:
    """Asked on either host, answered by agents on both, also over a cut in the middle of a turn."""
    async with team(tmp_path) as running:
        hosts = running.hosts
        near = await answer(await running.ask(hosts.hub, "piece 7", "--to", "far"))
        assert (near.status, near.answer) == ("completed", "piece 7 is done")

        gate = tmp_path / "gate"
        gate.touch()
        asked = await running.ask(hosts.leaf, "all", "--to", "lead", "--with", "far")
        await eventually((tmp_path / "in the middle").exists, "the far agent to be at work")
        hosts.cut()
        await eventually(lambda: hosts.failed_attempts() > 0, "the leaf to miss the hub")
        gate.unlink()
        await eventually((tmp_path / "handing over").exists, "the far agent to hand over")
        tried = hosts.failed_attempts()
        await eventually(lambda: hosts.failed_attempts() > tried, "the leaf to miss the hub still")
        assert asked.returncode is None
        hosts.restore()

        whole = await answer(asked)
        assert whole.answer == "all: piece 1 is done, piece 2 is done, piece 3 is done"
        log = await running.log_of(hosts.hub, whole.task)
        assert log == await running.log_of(hosts.leaf, whole.task)
        assert violations(whole.task, log, ("lead", "far")) == []
        done = [one for one in log if isinstance(one.event.data, AssignmentFinished)]
        assert [one.event.sender for one in done] == ["far"] * 3
