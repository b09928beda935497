"""The configurations in ops/nats, and what their comments promise of leaves and mirrors."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.support.bus_env import DEADLINE_S, soon
from tests.support.busreplay import busreplay
from tests.support.configured_servers import ConfiguredServer
from tests.support.eventually import eventually
from tests.support.nats_server import nats_server_binary
from tests.support.running_agents import running as running_agent
from threadbus.agents import Agent, Mention
from threadbus.bus import connect, retention
from threadbus.bus.access.keys import make_key
from threadbus.bus.cluster.certificates import Authority
from threadbus.schemas import AgentCard, TaskId

_OPS = Path(__file__).parents[2] / "ops" / "nats"
_CONFIGS = sorted(path.name for path in _OPS.glob("*.conf"))


@pytest.mark.parametrize("name", _CONFIGS)
def test_nats_server_takes_each_configuration(name: str, tmp_path: Path) -> None:
    """With the files in place that it names, `nats-server -t` calls it valid."""
    Authority("tests").issue(tmp_path / "tls", "n1", "127.0.0.1")
    (tmp_path / "accounts.conf").write_text("accounts {}\n", encoding="utf-8")
    text = (_OPS / name).read_text(encoding="utf-8")
    text = text.replace("/etc/threadbus", str(tmp_path)).replace(
        "/var/lib/threadbus", str(tmp_path)
    )
    config = tmp_path / name
    config.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [nats_server_binary(), "-t", "--config", config],
        env={"ROUTE_PASSWORD": "secret", "LEAF_SEED": make_key()[0].decode()},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()


@asynccontextmanager
async def _hub_and(
    folder: Path, leaf: dict[str, Any], **jetstream: str
) -> AsyncGenerator[tuple[str, str]]:
    """Run a server that takes leaves, and a leaf of it; give both URLs."""
    store = {"store_dir": str(folder / "hub"), **jetstream}
    hub = ConfiguredServer(folder, "hub", {"jetstream": store, "leafnodes": {"port": -1}})
    servers = [hub]
    try:
        await hub.start()
        log = (folder / "hub.log").read_text(encoding="utf-8")
        port = log.partition("leafnode connections on ")[2].split()[0].rpartition(":")[2]
        remote = {"remotes": [{"urls": [f"nats://127.0.0.1:{port}"]}]}
        servers.append(ConfiguredServer(folder, "leaf", {"leafnodes": remote, **leaf}))
        await servers[1].start()
        leaf_log = folder / "leaf.log"
        await eventually(
            lambda: "Leafnode connection created" in leaf_log.read_text(encoding="utf-8"),
            "the leaf is connected",
        )
        yield hub.url, servers[1].url
    finally:
        for server in servers:
            await server.kill()


async def test_agents_at_a_leaf_take_part(tmp_path: Path) -> None:
    """An agent that is connected to a leaf without streams is asked from the hub, and answers."""
    agent = Agent("web")

    @agent.on_mention
    async def answer(mention: Mention) -> str:
        return f"{mention.text}!"

    async with (
        _hub_and(tmp_path, {"default_js_domain": {"$G": "hub"}}, domain="hub") as (hub, leaf),
        connect(hub, name="user") as user,
        connect(leaf, name="web") as web,
        running_agent(agent, web),
    ):
        await user.registry.register(AgentCard(name="user"), holder="test")
        assert (await soon(user.ask("Hello", to=["web"]))).text == "Hello!"


async def test_a_mirror_replays_what_left_the_log(tmp_path: Path) -> None:
    """A server in a domain of its own mirrors the log; what the log drops, it still tells."""
    domain = {"jetstream": {"store_dir": str(tmp_path / "leaf"), "domain": "archive"}}
    async with (
        _hub_and(tmp_path, domain, domain="hub") as (hub, leaf),
        connect(hub, name="user") as user,
    ):
        await user.registry.register(AgentCard(name="user"), holder="test")
        task = (await user.tasks.open("Old?", to=[])).event.task
        await _api(hub, "UPDATE", {"duplicate_window": 100_000_000})
        mirror = {"name": "BUS", "external": {"api": "$JS.hub.API"}}
        await _api(
            leaf,
            "CREATE",
            {"storage": "file", "mirror": mirror, "allow_direct": True, "mirror_direct": False},
        )
        before = await _replayed(task, hub)

        async def is_mirrored() -> bool:
            return bool((await _api(leaf, "INFO"))["state"]["messages"] == 1)

        await eventually(is_mirrored, "the mirror has it")
        since = time.time_ns()
        await eventually(lambda: time.time_ns() - since > 400_000_000, "a moment is over")
        assert await retention.drop_before(user.settings, since, spare=timedelta(0)) == 1

        assert [entry async for entry in user.read(task)] == []
        assert await _replayed(task, leaf) == before


async def _api(url: str, verb: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    client = Client()
    await client.connect(url)
    try:
        body: dict[str, Any] = {"name": "BUS", **(changes or {})}
        if verb == "UPDATE":
            found = json.loads((await client.request("$JS.API.STREAM.INFO.BUS", b"")).data)
            body = {**found["config"], **(changes or {})}
        data = json.dumps(body).encode() if changes else b""
        answer = await client.request(f"$JS.API.STREAM.{verb}.BUS", data, timeout=10)
        found = json.loads(answer.data)
        assert "error" not in found, found
        return dict(found)
    finally:
        await client.close()


async def _replayed(task: TaskId, url: str) -> bytes:
    ran = await asyncio.to_thread(busreplay, task, "--url", url, "--format", "jsonl")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
