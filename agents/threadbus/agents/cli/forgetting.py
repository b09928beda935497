"""``bus forget``: what is left of agents that will not come back."""

from __future__ import annotations

from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.failures import AgentLivingError
from threadbus.agents.cli.results_operating import Forgot, ForgottenRow
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import plural
from threadbus.bus import Forgotten
from threadbus.schemas import parse_agent_name


@command("forget", panel="Run")
async def forget(
    shell: Shell,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Agents that are gone.")],
    drop_mentions: Annotated[
        bool,
        typer.Option("--drop-mentions", help="Also drop what waits for them; it stays in the log."),
    ] = False,
) -> None:
    """Take the record and the inbox of agents away that will not come back.

    One that is living is refused, and then none is taken away. What waits for them is kept for
    whoever takes the name next, unless it is to be dropped. Nothing in the log changes.
    """
    agents = list(dict.fromkeys(parse_agent_name(name) for name in names))
    async with shell.bus(ensure=False) as bus:
        for agent in agents:
            beats = await bus.registry.presence(agent)
            if beats:
                raise AgentLivingError(agent, len(beats))
        gone = [await bus.operations.forget(agent, drop_mentions=drop_mentions) for agent in agents]
    if shell.json:
        shell.result(Forgot(agents=[_row(one) for one in gone]))
        return
    for one in gone:
        shell.say(_said(one))


def _row(one: Forgotten) -> ForgottenRow:
    return ForgottenRow(
        agent=one.agent, registered=one.registered, waiting=one.waiting, dropped=one.dropped
    )


def _said(one: Forgotten) -> str:
    record = "forgotten" if one.registered else "was not registered; its inbox is gone"
    if one.dropped:
        return f"{one.agent} {record}; {plural(one.dropped, 'mention')} dropped"
    if one.waiting:
        kept = plural(one.waiting, "mention")
        return f"{one.agent} {record}; {kept} kept (--drop-mentions drops them)"
    return f"{one.agent} {record}; nothing waited for it"
