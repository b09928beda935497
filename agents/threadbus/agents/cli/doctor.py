"""``bus doctor``: checks, each with what to do; ends with 1 when something is wrong."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results import Check, Diagnosis, StreamRow, WaitingRow
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.status import server_config, stream_rows, waiting_rows
from threadbus.agents.cli.text import duration, plural, safe_url
from threadbus.bus import Bus, ConnectError, LivingAgent

_MAX_SKEW_NS: Final = 5_000_000_000
_MAX_LAG: Final = 1_000
_SERVER_CONSUMERS: Final = 1_000
"""Consumers a stream that nats-server 2.15 allows by itself."""
_MINUTE_NS: Final = 60_000_000_000


@command("doctor", panel="Look")
async def doctor(
    shell: Shell,
    minutes: Annotated[
        float, typer.Option("--minutes", help="A mention unanswered for longer is wrong.")
    ] = 10,
) -> ExitCode:
    """Check the server, the streams, the agents and the clock, and say what to do.

    Looks only: nothing is made or changed. Ends with 1 when something is wrong.
    """
    if not 0 < minutes <= 1_000_000:
        raise UsageError("--minutes", f"{minutes:g}", "a number above 0")
    settings = shell.settings()
    checks: list[Check] = []
    try:
        async with shell.bus(ensure=False) as bus:
            facts = await bus.facts()
            checks.append(
                Check(
                    name="server",
                    verdict="ok",
                    found=f"nats-server {facts.version} with JetStream at {safe_url(facts.url)}",
                )
            )
            checks += await _all(bus, settings.url, minutes)
    except ConnectError as error:
        checks.append(Check(name="server", verdict="wrong", found=str(error), advice=_START))
    return _report(shell, checks)


_NO_STREAMS: Final = Check(
    name="streams",
    verdict="note",
    found="not there yet",
    advice="nothing to do: the first `bus run` or `bus ask` makes them",
)
_START: Final = "start a server with `bus up`, or point --url or BUS_URL at one"


async def _all(bus: Bus, url: str, minutes: float) -> list[Check]:
    before = time.time_ns()
    storage = await bus.storage()
    after = time.time_ns()
    rows = stream_rows(storage)
    there = {row.name: row for row in rows if row.exists}
    checks = [_stream(row) for row in rows] if there else [_NO_STREAMS]
    if "MENTIONS" in there:
        checks.append(_lag(there["MENTIONS"]))
        checks.append(_consumers(there["MENTIONS"], url))
    agents = list(await bus.registry.agents()) if "KV_AGENTS" in there else []
    checks.append(_agents(agents))
    if "MENTIONS" in there:
        checks.append(
            _unanswered(await waiting_rows(bus, storage, [a.name for a in agents]), agents, minutes)
        )
    if storage.server_time:
        checks.append(_clock(storage.server_time, before, after))
    return checks


def _stream(row: StreamRow) -> Check:
    name = f"stream {row.name}"
    if not row.exists:
        return Check(
            name=name,
            verdict="note",
            found="not there yet",
            advice="nothing to do: the first `bus run` or `bus ask` makes it",
        )
    if row.differences:
        return Check(
            name=name,
            verdict="wrong",
            found="; ".join(row.differences),
            advice="any command that writes puts it right where it can; "
            "`bus tasks` says what cannot be changed",
        )
    copies = "" if row.copies <= 1 else f", {row.copies} copies"
    return Check(name=name, verdict="ok", found=f"as needed, {row.messages:,} messages{copies}")


def _lag(row: StreamRow) -> Check:
    if row.lag <= _MAX_LAG:
        return Check(name="delivery", verdict="ok", found=f"inboxes are {row.lag:,} behind the log")
    return Check(
        name="delivery",
        verdict="wrong",
        found=f"inboxes are {row.lag:,} events behind the log: agents are woken late",
        advice="look at the load of the server; it catches up by itself when it is idle",
    )


def _consumers(row: StreamRow, url: str) -> Check:
    config = server_config(url)
    allowed = 0 if config is None else config.jetstream.limits.get("default_max_consumers", 0)
    limit = allowed or _SERVER_CONSUMERS
    said = f"{row.consumers:,} inboxes of " + (
        f"{limit:,} that the server allows"
        if allowed
        else f"{limit:,} that nats-server allows unless default_max_consumers is set"
    )
    if row.consumers < limit * 0.9:
        return Check(name="inboxes", verdict="ok", found=said)
    return Check(
        name="inboxes",
        verdict="wrong" if allowed else "note",
        found=said,
        advice="raise jetstream { limits { default_max_consumers: … } } on the server",
    )


def _agents(agents: list[LivingAgent]) -> Check:
    gone = [agent.name for agent in agents if not agent.is_living]
    if not agents:
        return Check(
            name="agents",
            verdict="note",
            found="nobody is registered",
            advice="`bus init` makes an agent, `bus run` starts it",
        )
    if not gone:
        return Check(
            name="agents", verdict="ok", found=f"{plural(len(agents), 'agent')}, all living"
        )
    return Check(
        name="agents",
        verdict="wrong",
        found=f"registered but not living: {', '.join(gone[:20])}",
        advice="start them with `bus run`; what is asked of them waits",
    )


def _unanswered(rows: list[WaitingRow], agents: list[LivingAgent], minutes: float) -> Check:
    old = [row for row in rows if (row.oldest_age or 0) > minutes * _MINUTE_NS]
    if not old:
        count = sum(row.count for row in rows)
        return Check(
            name="mentions",
            verdict="ok",
            found=f"{count:,} waiting, none for longer than {minutes:g} min",
        )
    living = {agent.name for agent in agents if agent.is_living}
    worst = "; ".join(
        f"{row.agent} ({'busy' if row.agent in living else 'not living'}): {row.count:,}, "
        f"the oldest for {duration(row.oldest_age or 0)}, in {row.oldest_task}"
        for row in old[:5]
    )
    return Check(
        name="mentions",
        verdict="wrong",
        found=f"unanswered for longer than {minutes:g} min: {worst}",
        advice="start the agent, give it replicas (`bus run --replicas`), or `bus cancel` the task",
    )


def _clock(now: int, before: int, after: int) -> Check:
    skew = max(before - now, now - after, 0)
    if skew <= _MAX_SKEW_NS:
        return Check(name="clock", verdict="ok", found=f"{duration(skew)} off that of the server")
    return Check(
        name="clock",
        verdict="wrong",
        found=f"{duration(skew)} off that of the server: ages and durations mislead",
        advice="set the clock of this machine or of the server, with NTP for instance",
    )


def _report(shell: Shell, checks: list[Check]) -> ExitCode:
    wrong = [check for check in checks if check.verdict == "wrong"]
    if shell.json:
        shell.result(Diagnosis(healthy=not wrong, checks=checks))
        return ExitCode.FAILED if wrong else ExitCode.OK
    styles = {"ok": ("✓", "green"), "note": ("·", "yellow"), "wrong": ("✗", "bold red")}
    for check in checks:
        mark, style = styles[check.verdict]
        label = Text.assemble((f"{shell.symbol(mark):<3}", style), (f"{check.name:<21} ", "bold"))
        shell.paragraph(label, check.found)
        if check.advice:
            shell.paragraph(Text(" " * label.cell_len), check.advice, "yellow")
    shell.say()
    if wrong:
        shell.say(f"{plural(len(wrong), 'problem')} found", "bold red")
        return ExitCode.FAILED
    shell.say("nothing is wrong", "bold green")
    return ExitCode.OK
