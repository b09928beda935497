"""The MCP conformance suites against the gateway with the fixtures that they want."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import FOLDER
from tests.support.mcp_fixtures import FixtureGateway
from tests.support.mcp_peers import peers
from threadbus.bus import connect
from threadbus.gateways.mcp.gateway import GatewayOptions, open_gateway
from threadbus.gateways.mcp.http import HttpOptions, make_app
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import AgentName

SUITES = {
    "stable": ("conformance-0.1", "", ""),
    "2025-11-25": ("conformance-0.2", "2025-11-25", "conformance-2025-11-25.yml"),
    "2026-07-28": ("conformance-0.2", "2026-07-28", "conformance-2026-07-28.yml"),
}


@pytest.mark.parametrize("suite", SUITES)
async def test_a_conformance_suite_is_green(bus_url: str, tmp_path: Path, suite: str) -> None:
    """Nothing fails but what a baseline names with a reason, and that still does."""
    there = peers(tmp_path)
    package, revision, baseline = SUITES[suite]
    options = GatewayOptions(agent=AgentName("conformance"))
    async with (
        connect(bus_url, name="mcp-gateway") as bus,
        open_gateway(bus, options, FixtureGateway) as gateway,
        serving(
            make_app(gateway, HttpOptions()), Address("127.0.0.1", 0), on_stop=gateway.stop
        ) as served,
    ):
        ended = await there.node(
            there.module(package, "@modelcontextprotocol/conformance/dist/index.js"),
            *("server", "--url", f"{served.url}/mcp"),
            *(("--requirements", revision) if revision else ()),
            *(("--expected-failures", str(FOLDER / "mcp" / baseline)) if baseline else ()),
        )

    assert "Total: " in ended.output
    assert ended.code == 0, ended.output[ended.output.find("=== SUMMARY") :]
