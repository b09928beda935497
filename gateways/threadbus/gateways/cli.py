"""``bus gateway …``: the group of commands, which each gateway's ``commands`` module fills.

Those modules are light: what a gateway needs is imported when it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from threadbus.agents.cli import command_group

group: Final = command_group(
    "gateway", "Let agents and clients of other protocols work with those on the bus."
)


@group.callback()
def _gateway() -> None:
    """Keep it a group, also while it has one command."""


for _module in ("threadbus.gateways.mcp.commands", "threadbus.gateways.a2a.commands"):
    import_module(_module)
