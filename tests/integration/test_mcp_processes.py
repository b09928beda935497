"""Gateways as processes of their own: over stdio, behind one address, and killed at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.support.cli import Cli, line_with, process
from tests.support.eventually import eventually
from tests.support.mcp_hosts import ERAS, Era
from tests.support.mcp_plugged import COMMAND
from tests.support.mcp_processes import desk, host, serving, token
from threadbus.bus import connect
from threadbus.gateways.mcp.commands import Plugged, Serving


@pytest.mark.parametrize("era", ERAS)
async def test_two_hosts_over_stdio_talk(cli: Cli, era: Era) -> None:
    """Each starts a gateway of its own; the command line says who it is."""
    names = [f"left-{era}", f"right-{era}"]
    async with desk(cli, names[0], era) as left, desk(cli, names[1], era) as right:
        assert (await right.call("list_agents"))["you"] == names[1]
        where = (await left.call("create_thread", name="T", participants=[names[1]]))["thread_id"]
        await left.call("send_message", thread_id=where, content="hi", mentions=[names[1]])
        got = await right.call("wait_for_mentions", timeout_s=20)
        assert [message["text"] for message in got["messages"]] == ["hi"]
    async with connect(cli.url, name="looks") as bus:

        async def are_gone() -> bool:
            living = {agent.name for agent in await bus.registry.living()}
            return not living & set(names)

        await eventually(are_gone, "both have left")


async def test_a_host_goes_on_at_another_gateway_process(cli: Cli, tmp_path: Path) -> None:
    """Two processes behind one address: cursors, keys and questions hold in either."""
    ada, bob = [await token(cli, tmp_path, name) for name in ("ada-two", "bob-two")]
    keys = tmp_path / "keys"
    keys.write_text("k" * 40 + "\n")
    more = ("--state-keys", str(keys))
    async with (
        serving(cli, tmp_path, *more) as one,
        serving(cli, tmp_path, *more) as other,
        host(one.url, ada) as here,
        host(other.url, ada) as there,
        host(one.url, bob) as bob_here,
        host(other.url, bob) as bob_there,
    ):
        where = (await here.call("create_thread", name="T", participants=["bob-two"]))["thread_id"]
        said = {"thread_id": where, "content": "once", "mentions": ["bob-two"]}
        first = await here.call("send_message", **said, idempotency_key="k1")
        again = await there.call("send_message", **said, idempotency_key="k1")
        assert (again["message_id"], again["duplicate"]) == (first["message_id"], True)
        got = await bob_here.call("wait_for_mentions", timeout_s=20)
        assert [message["text"] for message in got["messages"]] == ["once"]
        nothing = await bob_there.call("wait_for_mentions", timeout_s=1, cursor=got["cursor"])
        assert nothing["status"] == "timeout"


async def test_a_command_line_that_leaves_something_open_is_refused(cli: Cli) -> None:
    """Nobody becomes an agent by an oversight of the operator."""
    ran = await cli("gateway", "mcp", "--http", "127.0.0.1:0")

    assert ran.code == 2
    assert "give one of the two: it says who a host is" in ran.err


async def test_a_stop_ends_waits_with_a_word(cli: Cli, tmp_path: Path) -> None:
    """SIGTERM: whoever waits is told to come again, and the process ends in order."""
    secret = await token(cli, tmp_path, "waits")
    tokens = str(tmp_path / "tokens.json")
    words = ["gateway", "mcp", "--http", "127.0.0.1:0", "--tokens", tokens, "--json"]
    async with process(*words, env=cli.env) as running:
        serving_ = msgspec.json.decode(await line_with(running, '"url"'), type=Serving)
        async with host(serving_.url, secret) as ada:
            waiting = asyncio.create_task(ada.error("wait_for_mentions", timeout_s=50))
            async with connect(cli.url, name="looks") as bus:

                async def is_waiting() -> bool:
                    beats = await bus.registry.presence("waits")
                    return any(beat.busy_with == "waiting for mentions" for beat in beats)

                await eventually(is_waiting, "the wait has begun")
                running.terminate()
                assert "stopping; nothing is lost" in await waiting
        async with asyncio.timeout(30):
            assert await running.wait() == 0


async def test_a_foreign_server_is_plugged_in_by_the_command(cli: Cli) -> None:
    """It says which tools there are; the agent is there until it is stopped."""
    words = ["gateway", "mcp-client", "--as", "plugged", "--json", "--", *COMMAND]
    async with process(*words, env=cli.env) as running:
        found = msgspec.json.decode(await line_with(running, '"tools"'), type=Plugged)
        assert found.agent == "plugged"
        assert "echo" in found.tools
        asked = await cli("ask", '{"tool": "echo"}', "--to", "plugged")
        assert asked.code == 1
        assert "send a data part" in asked.out + asked.err
        running.terminate()
        async with asyncio.timeout(30):
            assert await running.wait() == 0
