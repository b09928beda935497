"""``bus gateway``: other protocols on the bus. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from typing import Final

from threadbus.agents.cli import command_group
from threadbus.gateways.a2a import commands as a2a
from threadbus.gateways.mcp import commands as mcp

group: Final = command_group("gateway", "Let agents in that speak MCP or A2A.")
mcp.register(group)
a2a.register(group)
