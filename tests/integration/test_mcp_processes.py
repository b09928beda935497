"""Gateways as processes of their own: over stdio, behind one address, and killed at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import msgspec
import pytest
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import Cli, line_with, living, process
from tests.support.eventually import eventually
from tests.support.mcp_hosts import ERAS, Era
from tests.support.mcp_plugged import COMMAND
from tests.support.mcp_processes import desk, host, serving, token
from tests.support.running_agents import log_of
from threadbus.agents import Agent, Mention
from threadbus.bus import connect
from threadbus.gateways.mcp.commands import Plugged, Serving
from threadbus.schemas import InputGiven


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


class Balancer(httpx2.AsyncBaseTransport):
    """One address with several gateways behind it; the test says which one takes the next call."""

    def __init__(self, *urls: str) -> None:
        self._urls = [httpx2.URL(url) for url in urls]
        self._inner = httpx2.AsyncHTTPTransport()
        self.at = 0
        self.took: list[int] = []
        """Which gateway took each call of a tool."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = self._urls[self.at]
        if b'"tools/call"' in await request.aread():
            self.took.append(self.at)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["Host"] = f"{url.host}:{url.port}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def painter(name: str) -> Agent:
    """Return an agent that needs to know two colours."""
    agent = Agent(name, description="Paints.")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        first = await mention.request_input("Which colour?")
        return f"painted {first}, then {await mention.request_input('And then?')}"

    return agent


@pytest.mark.parametrize("same_keys", [True, False])
async def test_a_question_is_answered_at_another_process(
    cli: Cli, tmp_path: Path, same_keys: bool
) -> None:
    """Asked at one process, which is killed, and answered at the other: with the same keys only."""
    name = f"painter-{same_keys}".lower()
    secret = await token(cli, tmp_path, f"asks-{name}")
    keys = [tmp_path / "one", tmp_path / "other"]
    keys[0].write_text("k" * 40 + "\n")
    # The second one seals with a key of its own, and still opens what the first one sealed.
    keys[1].write_text("n" * 40 + "\n" + ("k" * 40 + "\n" if same_keys else ""))
    asked: list[str] = []
    answered: dict[str, Any] = {}
    refused = ""
    async with (
        serving(cli, tmp_path, "--state-keys", str(keys[0])) as one,
        serving(cli, tmp_path, "--state-keys", str(keys[1])) as other,
        living(cli.url, painter(name)),
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"},
            transport=(balancer := Balancer(one.url, other.url)),
            timeout=60,
        ) as http,
    ):

        async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            asked.append(params.message)
            if balancer.at == 0:
                os.kill(one.pid, signal.SIGKILL)
                balancer.at = 1
            return types.ElicitResult(action="accept", content={"answer": f"c{len(asked)}"})

        client = Client(
            streamable_http_client(one.url, http_client=http), elicitation_callback=elicit
        )
        async with client, asyncio.timeout(60):
            try:
                result = await client.call_tool("ask", {"agent": name, "question": "paint"})
            except MCPError as error:
                refused = str(error)
            else:
                answered = result.structured_content or {}
        async with connect(cli.url, name="looks") as bus:
            (row,) = [row for row in await bus.tasks.list() if f"asks-{name}" == row.opened_by]
            given = [
                event for event in await log_of(bus, row.task) if isinstance(event.data, InputGiven)
            ]
            if not same_keys:
                # Nobody waits for its end at the end of the test.
                await bus.acting_as(f"asks-{name}").tasks.cancel(row.task)

    assert set(balancer.took) == {0, 1}
    if same_keys:
        assert answered["text"] == "painted c1, then c2"
        assert asked == ["Which colour?", "And then?"]
        assert len(given) == 2
    else:
        assert "state" in refused.lower()
        assert given == []


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
