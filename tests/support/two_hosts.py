"""Two hosts on one machine: network namespaces with a link that can be cut, and a server in each.

The first host holds the streams; the server of the second one is a leaf of it, without JetStream.
All traffic stays inside the namespaces.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.configured_servers import ConfiguredServer
from tests.support.require import require
from tests.support.tree import ROOT

_NETWORK = "10.215.7"
_LEAF_PORT = 7422
DOMAIN = "hub"
"""The JetStream domain of the server that holds the streams."""
# A link that drops packets is noticed by answers that do not come.
_NOTICE = {"ping_interval": "1s", "ping_max": 2}


@dataclass(frozen=True)
class Host:
    """A network namespace."""

    name: str
    address: str
    link: str

    @property
    def inside(self) -> tuple[str, ...]:
        """What runs a command on this host, as the words before it."""
        return ("ip", "netns", "exec", self.name)

    async def start(
        self, *words: str, env: Mapping[str, str], log: Path
    ) -> asyncio.subprocess.Process:
        """Start a command on this host; its standard output is piped. The caller ends it."""
        with log.open("wb") as errors:
            return await asyncio.create_subprocess_exec(
                *self.inside,
                *words,
                env=env,
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )


@dataclass(frozen=True)
class TwoHosts:
    """Two hosts, a server on each, and the link between them."""

    hub: Host
    leaf: Host
    hub_server: ConfiguredServer
    leaf_server: ConfiguredServer
    leaf_log: Path

    def cut(self) -> None:
        """Cut the link: packets are lost from now on, and nobody is told."""
        for host in (self.hub, self.leaf):
            _run(*host.inside, "ip", "link", "set", host.link, "down")

    def failed_attempts(self) -> int:
        """How often the leaf has tried in vain to reach the hub."""
        return self.leaf_log.read_text(encoding="utf-8").count("Error trying to connect")

    def restore(self) -> None:
        """Let packets through again."""
        for host in (self.hub, self.leaf):
            _run(*host.inside, "ip", "link", "set", host.link, "up")


def leaf_config(hub: str) -> Mapping[str, object]:
    """Return the settings of a server without streams, which is a leaf of the one at *hub*."""
    return {
        "leafnodes": {"reconnect": 1, "remotes": [{"urls": [f"nats-leaf://{hub}:{_LEAF_PORT}"]}]},
        # What clients here ask of JetStream and its buckets goes to the domain of the hub.
        "mappings": {
            "$JS.API.>": f"$JS.{DOMAIN}.API.>",
            "$KV.>": f"$JS.{DOMAIN}.API.$KV.>",
        },
        **_NOTICE,
    }


def hub_config(address: str, folder: Path) -> Mapping[str, object]:
    """Return the settings of the server that holds the streams and takes leaves."""
    return {
        "jetstream": {"store_dir": str(folder), "domain": DOMAIN},
        "leafnodes": {"host": address, "port": _LEAF_PORT},
        **_NOTICE,
    }


@asynccontextmanager
async def two_hosts(folder: Path) -> AsyncGenerator[TwoHosts]:
    """Make both hosts with their servers; everything is gone at the end."""
    with _namespaces() as (hub, leaf):
        hub_server = ConfiguredServer(
            folder, "hub", hub_config(hub.address, folder / "data"), prefix=hub.inside
        )
        leaf_server = ConfiguredServer(folder, "leaf", leaf_config(hub.address), prefix=leaf.inside)
        async with AsyncExitStack() as stack:
            for server in (hub_server, leaf_server):
                stack.push_async_callback(server.kill)
                await server.start()
            yield TwoHosts(hub, leaf, hub_server, leaf_server, folder / "leaf.log")


@contextmanager
def _namespaces() -> Generator[tuple[Host, Host]]:
    require("root and `ip netns` (apt-get install iproute2)", _can_make_namespaces())
    mark = f"threadbus-{os.getpid()}"
    hub = Host(f"{mark}-hub", f"{_NETWORK}.1", "wire0")
    leaf = Host(f"{mark}-leaf", f"{_NETWORK}.2", "wire1")
    try:
        for host in (hub, leaf):
            _run("ip", "netns", "add", host.name)
            _run(*host.inside, "ip", "link", "set", "lo", "up")
        # Both ends are made inside, so that no name of ours is ever on the machine itself.
        wire = ("ip", "link", "add", hub.link, "type", "veth", "peer", "name", leaf.link)
        _run(*hub.inside, *wire, "netns", leaf.name)
        for host in (hub, leaf):
            _run(*host.inside, "ip", "address", "add", f"{host.address}/24", "dev", host.link)
            _run(*host.inside, "ip", "link", "set", host.link, "up")
        yield hub, leaf
    finally:
        for host in (hub, leaf):
            subprocess.run(["ip", "netns", "delete", host.name], check=False, capture_output=True)


def _can_make_namespaces() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"threadbus-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    return made.returncode == 0


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
