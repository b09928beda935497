"""Faults of a cluster: three servers, three copies of everything.

The partitions are made in network namespaces: one for each server and one for everybody else, with
a bridge in it. There ``python -m tests.chaos.clusters`` does the work, so that no packet leaves
them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos.needs import MissingError
from tests.chaos.stage import TEAM, Stage
from tests.chaos.tracing import injected
from tests.chaos.verdict import Verdict
from tests.support.configured_servers import ConfiguredServer
from tests.support.nats_cluster import cluster, leader_of, running_cluster

_COPIES: Final = 3
_ROUTE_PORT: Final = 6222
_NET: Final = "10.77.0"
_HUB: Final = f"{_NET}.254"
_DISK_FAILS: Final = (
    ("pwrite64:error=EIO",),
    ("pwrite64:error=ENOSPC",),
    ("pwrite64:error=EIO:when=2+3",),
    ("openat:error=EIO", "renameat:error=EIO", "unlinkat:error=EIO", "pwrite64:error=EIO:when=3+"),
)
_LEADING: Final = (
    "STREAM.INFO.BUS",
    "STREAM.INFO.MENTIONS",
    *(f"CONSUMER.INFO.MENTIONS.agent-{name}" for name in TEAM),
)


class _Outcome(msgspec.Struct, frozen=True):
    verdict: Verdict
    counts: dict[str, int]


async def cluster_leaders_killed(stage: Stage) -> Verdict:
    """`kill -9` of servers that lead the log, the inboxes or a consumer, often two in a row."""
    stage.replicas = _COPIES
    async with cluster(stage.folder) as servers:
        url = _url(servers)
        async with stage.team(url):
            async with stage.writing(*(_url(servers, first) for first in range(_COPIES))):
                while await stage.rest(1.0, 5.0):
                    for _ in range(stage.chance.choice([1, 2, 2])):
                        victim = await _leader(stage, servers)
                        await victim.kill()
                        await stage.rest(0.0, 1.5)
                        await victim.start()
                        stage.count("leader killed")
                        await stage.rest(0.1, 1.0)
            return await stage.settle(url)


async def cluster_disk_fails(stage: Stage) -> Verdict:
    """The disk of a server that leads refuses writes; the server is started again after a while."""
    stage.replicas = _COPIES
    output = stage.folder / "calls.txt"
    async with cluster(stage.folder) as servers:
        url = _url(servers)
        async with stage.team(url):
            async with stage.writing(*(_url(servers, first) for first in range(_COPIES))):
                while await stage.rest(1.0, 4.0):
                    victim = await _leader(stage, servers)
                    rules = stage.chance.choice(_DISK_FAILS)
                    async with injected(victim.pid, output, rules) as spell:
                        stage.count("disk failed")
                        await stage.rest(0.3, 4.0)
                    stage.count("call refused", spell.touched())
                    await stage.rest(0.0, 1.0)
                    await victim.kill()
                    await victim.start()
            return await stage.settle(url)


def _url(servers: Sequence[ConfiguredServer], first: int = 0) -> str:
    order = [*servers[first:], *servers[:first]]
    return ",".join(server.url for server in order)


async def _leader(stage: Stage, servers: Sequence[ConfiguredServer]) -> ConfiguredServer:
    """Return a server that leads something now; any where nobody says who does."""
    name = ""
    with suppress(Exception):
        async with asyncio.timeout(5):
            name = await leader_of(servers, stage.chance.choice(_LEADING))
    return next((one for one in servers if one.name == name), stage.chance.choice(list(servers)))


async def cluster_partitioned(stage: Stage) -> Verdict:
    """Servers are cut off from everybody, or two of them from each other, without a word."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise MissingError("network namespaces for this user (root, and `ip` of iproute2)")
    out = stage.folder / "outcome.json"
    async with _namespaces() as names:
        words = (str(stage.folder), str(stage.seed), str(stage.seconds), *names)
        process = await asyncio.create_subprocess_exec(
            *(
                "ip",
                "netns",
                "exec",
                names[0],
                sys.executable,
                "-m",
                "tests.chaos.clusters",
                *words,
            ),
            start_new_session=True,
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code:
        raise RuntimeError(f"the part in the namespaces ended with {code}")
    outcome = msgspec.json.decode(out.read_bytes(), type=_Outcome)
    stage.counts.update(outcome.counts)
    return outcome.verdict


@asynccontextmanager
async def _namespaces() -> AsyncGenerator[list[str]]:
    """Make a namespace for everybody, and one for each server, joined by a bridge in the first."""
    names = [f"chaos-{os.getpid()}-{what}" for what in ("hub", "n0", "n1", "n2")]
    hub, *nodes = names
    try:
        for name in names:
            await _ip("netns", "add", name)
            await _ip("-n", name, "link", "set", "lo", "up")
        await _ip("-n", hub, "link", "add", "br0", "type", "bridge")
        await _ip("-n", hub, "addr", "add", f"{_HUB}/24", "dev", "br0")
        await _ip("-n", hub, "link", "set", "br0", "up")
        for number, node in enumerate(nodes):
            port = f"v{number}"
            await _ip(
                *("-n", hub, "link", "add", port, "type", "veth"),
                *("peer", "name", "e0", "netns", node),
            )
            await _ip("-n", hub, "link", "set", port, "master", "br0")
            await _ip("-n", hub, "link", "set", port, "up")
            await _ip("-n", node, "addr", "add", f"{_NET}.{number + 1}/24", "dev", "e0")
            await _ip("-n", node, "link", "set", "e0", "up")
        yield names
    finally:
        for name in names:
            with suppress(MissingError):
                await _ip("netns", "del", name)


async def _ip(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    if process.returncode:
        raise MissingError(f"way to say `ip {' '.join(words)}`: {err.decode().strip()}")


async def _partition(stage: Stage, names: Sequence[str]) -> Verdict:
    """Do it; this process is in the first namespace."""
    stage.replicas = _COPIES
    routes = [(f"{_NET}.{number + 1}", _ROUTE_PORT) for number in range(_COPIES)]
    prefixes = [("ip", "netns", "exec", name) for name in names[1:]]
    async with (
        running_cluster(stage.folder, routes, prefixes) as servers,
        AsyncExitStack() as stack,
    ):
        await stack.enter_async_context(stage.team(_url(servers)))
        urls = [_url(servers, first) for first in range(_COPIES)]
        async with stage.writing(*urls):
            while await stage.rest(1.0, 6.0):
                ports = [f"v{servers.index(await _leader(stage, servers))}"]
                if stage.chance.random() < 0.3:
                    # These two do not see each other; everybody else sees both.
                    others = [f"v{number}" for number in range(_COPIES)]
                    others.remove(ports[0])
                    ports.append(stage.chance.choice(others))
                    stage.count("two cut off from each other")
                else:
                    stage.count("one cut off from all")
                await _cut(ports)
                try:
                    await stage.rest(1.0, 10.0)
                finally:
                    await _mend(ports)
        return await stage.settle(_url(servers))


async def _cut(ports: Sequence[str]) -> None:
    for port in ports:
        if len(ports) > 1:
            await _ip("link", "set", "dev", port, "type", "bridge_slave", "isolated", "on")
        else:
            await _ip("link", "set", "dev", port, "down")


async def _mend(ports: Sequence[str]) -> None:
    for port in ports:
        if len(ports) > 1:
            await _ip("link", "set", "dev", port, "type", "bridge_slave", "isolated", "off")
        else:
            await _ip("link", "set", "dev", port, "up")


async def _inside(folder: Path, seed: int, seconds: float, names: Sequence[str]) -> None:
    stage = Stage(folder, seed, seconds)
    verdict = await _partition(stage, names)
    outcome = msgspec.json.encode(_Outcome(verdict, stage.counts))
    (folder / "outcome.json").write_bytes(outcome)


if __name__ == "__main__":
    asyncio.run(_inside(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
