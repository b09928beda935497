"""``bus limits …``: how much each agent may say, and who said so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from threadbus.agents.cli.app import app, command, command_group
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results_operating import AgentLimitsRow, LimitRow, LimitsShown
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import typed
from threadbus.bus import Limit
from threadbus.schemas import LimitRecord, LimitSet

group: Final = command_group("limits", "Say how much an agent may say; kept on record.")
app.add_typer(group, rich_help_panel="Set up")

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="An agent; * is all that have no limits of their own.")
]
Reason: TypeAlias = Annotated[str, typer.Option("--reason", help="Why; it stays on record.")]


@command("set", group=group)
async def set_(
    shell: Shell,
    name: Name,
    events: Annotated[
        int | None, typer.Option("--events", help="Events a second that it may append.")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", help="Events at once after a quiet time.")
    ] = None,
    mentions: Annotated[
        int | None,
        typer.Option("--mentions", help="Mentions a minute in a super-task that are answered."),
    ] = None,
    exchange: Annotated[
        int | None,
        typer.Option("--between", help="Messages between it and another before work must follow."),
    ] = None,
    reason: Reason = "",
) -> None:
    """Set limits of an agent; what is not given is as for everybody. Needs an operator's key."""
    if (events, at_once, mentions, exchange) == (None,) * 4:
        raise UsageError("--events, --at-once, --mentions, --between", "", "give one or more")
    async with shell.bus() as bus:
        record = await bus.limits.set(
            name,
            events_per_second=events,
            burst=at_once,
            mentions_per_minute=mentions,
            exchange=exchange,
            reason=typed(reason),
        )
    _show(shell, {name: record})


@command("clear", group=group)
async def clear(shell: Shell, name: Name, reason: Reason = "") -> None:
    """Leave an agent to everybody's limits; what was set before stays on record."""
    async with shell.bus() as bus:
        record = await bus.limits.clear(name, reason=typed(reason))
    _show(shell, {name: record})


@command("list", group=group)
async def list_(shell: Shell) -> None:
    """Show who has limits on record, who set them, when and why."""
    async with shell.bus(ensure=False) as bus:
        records = await bus.limits.on_record()
    _show(shell, records)


def _show(shell: Shell, records: Mapping[str, LimitRecord]) -> None:
    settings = shell.settings()
    defaults = {limit.value: int(getattr(settings, limit.value)) for limit in Limit}
    if shell.json:
        rows = [
            AgentLimitsRow(
                agent=name,
                limits=_row(record.limits),
                replaced=[_row(limits) for limits in record.replaced],
            )
            for name, record in records.items()
        ]
        shell.result(LimitsShown(agents=rows, defaults=defaults))
        return
    made = table("agent", *(limit.value.replace("_", " ") for limit in Limit), "set by", "why")
    for name, record in records.items():
        limits = record.limits
        at = datetime.fromtimestamp(limits.set_at / 1e9, UTC).isoformat(timespec="seconds")
        made.add_row(
            cell(name),
            *(cell(_shown(getattr(limits, limit.value))) for limit in Limit),
            cell(f"{limits.set_by} at {at}"),
            cell(limits.reason or "-"),
        )
    made.add_row(cell("settings"), *(cell(_shown(defaults[limit.value])) for limit in Limit))
    shell.table(made)


def _shown(value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if value else "no limit"


def _row(limits: LimitSet) -> LimitRow:
    return LimitRow(**msgspec.structs.asdict(limits))
