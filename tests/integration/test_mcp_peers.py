"""Peers that others wrote: the Inspector and the JavaScript client, in both eras and over stdio."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.busreplay import busreplay
from tests.support.cli import echo, living
from tests.support.mcp_hosts import ERAS, Era, Running, serving_gateway
from tests.support.mcp_peers import Peers, peers

FLOW = Path(__file__).parents[1] / "support" / "mcp_peer.mjs"


@pytest.fixture
async def running(bus_url: str, tmp_path: Path) -> AsyncGenerator[Running]:
    """A gateway on the private server of the module."""
    async with serving_gateway(bus_url, tmp_path) as served:
        yield served


@pytest.mark.parametrize("era", ERAS)
async def test_javascript_hosts_talk_vote_and_answer(
    running: Running, tmp_path: Path, era: Era
) -> None:
    """Two hosts of another implementation go through a whole task, which is then replayed."""
    there = peers(tmp_path)
    module = there.module("client", "@modelcontextprotocol/client/dist/index.mjs")
    names = [f"js-ada-{era}", f"js-bob-{era}"]
    tokens = [running.token(name) for name in names]
    ended = await there.node(str(FLOW), module, running.url, *tokens, era)

    assert ended.code == 0, ended.output
    found = json.loads(ended.output.splitlines()[-1])
    assert {"wait_for_mentions", "vote", "submit_answer"} <= set(found.pop("tools"))
    task = found.pop("task")
    assert found == {
        "question": "What is 2+2?",
        "answer": "four",
        "reached": True,
        "closed": "thread_closed",
        "refused": True,
    }
    replayed = await asyncio.to_thread(busreplay, task, BUS_URL=running.bus_url)
    assert replayed.returncode == 0, replayed.stderr
    for words in (*names, "What is 2+2?", "It is four.", "approve", "four"):
        assert words in replayed.stdout.decode()


async def inspector(there: Peers, *arguments: str) -> str:
    """Run the Inspector's command line; return what it printed."""
    program = there.module("inspector", ".bin", "mcp-inspector")
    ended = await there.node(program, "--cli", *arguments)
    assert ended.code == 0, f"exit code {ended.code}:\n{ended.output}"
    return ended.output


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_finds_nothing_to_complain_of(
    running: Running, tmp_path: Path, era: str
) -> None:
    """It lists tools under its strict lint, calls one, and loads one without an error."""
    there = peers(tmp_path)
    server = ["--transport", "http", "--server-url", running.url, "--protocol-era", era]
    server += ["--header", f"Authorization: Bearer {running.token('inspector')}"]
    async with living(running.bus_url, echo("echo")):
        listed = await inspector(there, *server, "--method", "tools/list", "--strict")
        assert '"ask_echo"' in listed
        asked = ["--tool-name", "ask_echo", "--tool-args-json", '{"question": "hi"}']
        assert "echo: hi" in await inspector(there, *server, "--method", "tools/call", *asked)
        load = ["--load", "--load-requests", "100", "--load-concurrency", "10"]
        loaded = await inspector(there, *server, "--method", "tools/call", *asked, *load)
        report = json.loads(loaded[loaded.index("{") :])
        assert (report["ok"], report["errors"], report["toolErrors"]) == (100, 0, 0)


async def test_the_inspector_starts_the_gateway_over_stdio(bus_url: str, tmp_path: Path) -> None:
    """The way in which most hosts on a desk start a server."""
    there = peers(tmp_path)
    command = [sys.executable, "-m", "threadbus.agents.cli", "gateway", "mcp", "--stdio"]
    command += ["--agent", "desk", "--url", bus_url]
    called = await inspector(
        there, *command, "--method", "tools/call", "--tool-name", "list_agents"
    )

    assert '"you": "desk"' in called or '\\"you\\":\\"desk\\"' in called


async def test_the_documented_entry_for_a_host_works(bus_url: str, tmp_path: Path) -> None:
    """What docs/mcp.md tells a new user to write is what a host takes."""
    there = peers(tmp_path)
    page = (FLOW.parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    found = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert found is not None
    entry = json.loads(found[1])
    server = entry["mcpServers"]["threadbus"]
    assert server["command"] == "bus"
    # The page says to give the full path where the host does not find it.
    server["command"] = str(Path(sys.executable).parent / "bus")
    server["env"]["BUS_URL"] = bus_url
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps(entry), encoding="utf-8")
    called = ["--method", "tools/call", "--tool-name", "list_agents"]
    shown = await inspector(there, "--config", str(config), "--server", "threadbus", *called)

    assert "my-editor" in shown
