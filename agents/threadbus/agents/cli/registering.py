"""``bus register`` and ``bus deregister``: agents that do not run by ``bus run``."""

from __future__ import annotations

from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results import Registered
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import typed
from threadbus.bus import new_instance
from threadbus.schemas import AgentCard, parse_agent_name

Name = Annotated[str, typer.Argument(help="The agent's name.")]


@command("register", panel="Run")
async def register(
    shell: Shell,
    name: Name,
    description: Annotated[str, typer.Option(help="What it can do, in words.")] = "",
    display_name: Annotated[str, typer.Option(help="Its name for people.")] = "",
    push: Annotated[
        bool, typer.Option("--push", help="Push mentions to inbox.NAME instead of having it pull.")
    ] = False,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Replace whoever holds the name.")
    ] = False,
) -> None:
    """Put an agent of any language into the registry, so that it can be mentioned."""
    card = AgentCard(
        name=parse_agent_name(name),
        display_name=typed(display_name),
        description=typed(description),
    )
    async with shell.bus() as bus:
        record = await bus.registry.register(
            card, holder=new_instance(), push=push, takeover=takeover
        )
    pulled = f"stream {record.inbox_stream}, consumer agent-{name}"
    where = f"subject inbox.{name}" if push else pulled
    if shell.json:
        shell.result(Registered(agent=name, inbox=where))
        return
    shell.say(f"{name} is registered; its mentions: {where}")


@command("deregister", panel="Run")
async def deregister(shell: Shell, name: Name) -> None:
    """Take an agent out of the registry; what it said and what waits for it stay."""
    async with shell.bus() as bus:
        record = await bus.registry.get(parse_agent_name(name))
        if record is None:
            raise await bus.registry.unknown(name)
        await bus.registry.deregister(name)
    if shell.json:
        shell.result(Registered(agent=name, inbox=""))
        return
    shell.say(f"{name} is no longer registered")
