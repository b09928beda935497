"""Gateways as processes with keys: they speak as those whom they act for, and as nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.access import Secured, secured
from tests.support.cli import Cli, line_with, process
from tests.support.mcp_processes import desk, host, serving, token
from threadbus.bus import access


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Secured]:
    """A server with an agent and a gateway that acts for ann."""
    async with secured(tmp_path, "web") as made:
        await made.add("desk", role=access.Role.GATEWAY, acts_for=("ann",))
        yield made


def _cli(team: Secured, home: Path, name: str, **more: str) -> Cli:
    key = str(team.folder.key_path(name))
    return Cli(team.server.url, home, {"BUS_NKEY": key, **more})


async def test_an_mcp_host_over_stdio_needs_the_key_of_its_agent_only(
    team: Secured, tmp_path: Path
) -> None:
    """The gateway that the host starts is that agent, and no gateway with names of others."""
    async with desk(_cli(team, tmp_path, "web"), "web", "auto") as editor:
        assert (await editor.call("list_agents"))["you"] == "web"


async def test_an_mcp_gateway_speaks_as_those_it_acts_for(team: Secured, tmp_path: Path) -> None:
    """A token for anybody else is of no use; once it acts for him it is, without a restart."""
    cli = _cli(team, tmp_path, "desk", BUS_AS="desk")
    ann, web = [await token(cli, tmp_path, name) for name in ("ann", "web")]
    async with serving(cli, tmp_path) as served:
        async with host(served.url, ann) as editor:
            assert (await editor.call("list_agents"))["you"] == "ann"
        async with host(served.url, web) as editor:
            refused = await editor.client.call_tool("list_agents", {})
            assert refused.is_error
            assert "The gateway may not do this" in str(refused.content)
        await team.folder.act_for("desk", ["web"])
        await team.server.reload()
        async with host(served.url, web) as editor:
            assert (await editor.call("list_agents"))["you"] == "web"


async def test_an_a2a_gateway_has_the_name_of_its_key(team: Secured, tmp_path: Path) -> None:
    """It acts for the agent that sends push notifications, and needs no other name."""
    await team.folder.act_for("desk", ["a2a-push"])
    await team.server.reload()
    cli = _cli(team, tmp_path, "desk", BUS_AS="desk")
    words = ("gateway", "a2a", "--http", "127.0.0.1:0", "--team", "web", "--json")
    async with process(*words, env=cli.env) as running:
        assert "http://127.0.0.1:" in await line_with(running, '"url"')
