"""A cluster as `bus cluster` lays it out, with three real servers."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.support.eventually import eventually
from threadbus.bus import BusSettings, cluster

_SCRIPT_S: Final = 90.0


def free_ports(count: int) -> list[int]:
    """Return two runs of *count* free ports each: the first of each run."""
    while True:
        # Below those that the system gives to connections.
        bases = random.sample(range(20_000, 32_000, 10), 2)
        with suppress(OSError):
            for base in bases:
                for port in range(base, base + count):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", port))
            return bases


@dataclass
class RunningCluster:
    """Three servers, each of which may be killed and started again."""

    folder: cluster.ClusterFolder
    _processes: dict[str, Process] = field(default_factory=dict[str, Process])

    @property
    def nodes(self) -> Sequence[cluster.ClusterNode]:
        """The servers."""
        return self.folder.plan().nodes

    def settings(self, name: str) -> BusSettings:
        """Return the settings of who has the key of *name*."""
        plan = self.folder.plan()
        return BusSettings(
            url=plan.urls,
            nkey=str(self.folder.auth.key_path(name)),
            tls_ca=str(self.folder.path / "tls" / "ca.pem"),
            replicas=3,
        )

    async def start(self, name: str) -> None:
        """Start one server, as a person does."""
        with (self.folder.path / f"{name}.log").open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "threadbus.agents.cli", "cluster", "up"),
                self.folder.node_path(name),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=log,
            )

    async def kill(self, name: str) -> None:
        """End one server with SIGKILL."""
        process = self._processes[name]
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    def pid(self, name: str) -> int:
        """Return the process of a server."""
        return self._processes[name].pid

    async def close(self) -> None:
        """End every server."""
        for name in self._processes:
            await self.kill(name)


@asynccontextmanager
async def running_cluster(path: Path, *agents: str) -> AsyncGenerator[RunningCluster]:
    """Lay out a cluster with agents, start it, and give it once it works."""
    from threadbus.bus import access

    port, cluster_port = free_ports(3)
    folder = cluster.ClusterFolder(path / "team")
    await folder.init(cluster.make_plan(["127.0.0.1"] * 3, port=port, cluster_port=cluster_port))
    for agent in agents:
        await folder.auth.add(agent, access.Role.AGENT)
    running = RunningCluster(folder)
    try:
        for node in running.nodes:
            await running.start(node.name)
        found = await folder.sync(patience=timedelta(seconds=60))
        assert found.is_healthy, found
        yield running
    finally:
        await running.close()


def console_block(document: Path, mark: str) -> list[str]:
    """Return the commands of the console block below a mark."""
    found = re.search(
        rf"<!-- {mark} -->\n```console\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None, f"{document.name} has no block marked {mark}"
    return [line[2:] for line in found[1].splitlines() if line.startswith("$ ")]


async def run_script(commands: Sequence[str], folder: Path, env: dict[str, str]) -> str:
    """Run commands in one bash, each of which must work; end what they leave; return the output."""
    endings = ("" if command.endswith("&") else " || exit 1" for command in commands)
    script = "\n".join(map("".join, zip(commands, endings, strict=True)))
    said = folder / "script.out"
    with said.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", script),
            cwd=folder,
            env=env,
            stdin=DEVNULL,
            # A file: what runs in the background would keep a pipe open.
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(_SCRIPT_S):
            code = await process.wait()
        assert code == 0, said.read_text(encoding="utf-8")
        return said.read_text(encoding="utf-8")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await eventually(lambda: not _group_lives(process.pid), "what was started ends")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
