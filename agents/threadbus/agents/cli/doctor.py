"""``bus doctor``: checks, each with what to do; ends with 1 when something is wrong."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.checking_agents import (
    check_agents,
    check_left,
    check_recent,
    check_waiting,
)
from threadbus.agents.cli.checking_server import (
    check_clock,
    check_expiries,
    check_room,
    check_safety,
    check_slow,
    data_folder,
    monitored_sync,
)
from threadbus.agents.cli.checking_streams import (
    check_consumers,
    check_copies,
    check_delivery,
    check_sizes,
    check_streams,
)
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.failures import MonitorError, UsageError
from threadbus.agents.cli.findings import hidden, note, ok, wrong
from threadbus.agents.cli.monitor import Monitor, look_at_monitor
from threadbus.agents.cli.results import Check, Diagnosis
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.status import (
    UNKNOWN,
    explain,
    own_data,
    server_config,
    sync_interval,
    waiting_rows,
)
from threadbus.agents.cli.text import plural, safe_url
from threadbus.agents.monitoring import inbox_streams, look_at_waiting
from threadbus.bus import (
    Bus,
    BusError,
    ConnectError,
    Entry,
    Health,
    LivingAgent,
    NoServerError,
    StorageFacts,
    Unseen,
)

_T = TypeVar("_T")
_MAX_EVENTS: Final = 100_000
_START: Final = (
    "start a server with `bus up`, or point --url or BUS_URL at one; of a cluster more than half "
    "of the servers must be there"
)


@command("doctor", panel="Look", log_level="error")
async def doctor(
    shell: Shell,
    minutes: Annotated[
        float, typer.Option("--minutes", help="A mention unanswered for longer is wrong.")
    ] = 10,
    hours: Annotated[
        float, typer.Option("--hours", help="A dead letter that is younger is wrong.")
    ] = 1,
    events: Annotated[
        int, typer.Option("--events", help="So many events at the end of the log are looked at.")
    ] = 10_000,
    monitor: Annotated[
        str,
        typer.Option(
            "--monitor",
            envvar="BUS_MONITOR",
            help="The server's monitoring page: http://HOST:8222.",
        ),
    ] = "",
) -> ExitCode:
    """Check the server, the streams, the agents and the clocks, and say what to do.

    Looks only: nothing is made or changed. What these credentials may not see is said. Ends with 0
    when nothing is wrong, with 1 when something is; notes, and what was not seen, do not count.
    """
    if not 0 < minutes <= 1_000_000:
        raise UsageError("--minutes", f"{minutes:g}", "a number above 0")
    if not 0 < hours <= 1_000_000:
        raise UsageError("--hours", f"{hours:g}", "a number above 0")
    if not 1 <= events <= _MAX_EVENTS:
        raise UsageError("--events", f"{events}", f"1 to {_MAX_EVENTS:,}")
    settings = shell.settings()
    checks: list[Check] = []
    try:
        async with shell.bus(ensure=False) as bus:
            look = _Look(bus, settings.url, monitor)
            checks += await look.everything(minutes, hours, events)
    except ConnectError as error:
        # The others say themselves what to do.
        advice = _START if isinstance(error, NoServerError) else ""
        checks.append(wrong("server", str(error), advice))
    return _report(shell, checks)


class _Look:
    """One look at everything; what may not be seen is noted, and the rest is looked at."""

    def __init__(self, bus: Bus, url: str, monitor_url: str) -> None:
        self._bus = bus
        self._url = url
        self._monitor_url = monitor_url
        self._unseen: list[Unseen] = []

    async def _seen(self, what: str, work: Awaitable[_T]) -> _T | None:
        try:
            return await work
        except ConnectError:
            raise
        except (BusError, TimeoutError) as error:
            self._unseen.append(Unseen.because(what, error))
            return None

    async def everything(self, minutes: float, hours: float, events: int) -> list[Check]:
        """Look, and return the checks."""
        bus = self._bus
        checks: list[Check] = []
        facts = await bus.facts()
        checks.append(
            ok(
                "server",
                f"nats-server {facts.version} with JetStream at {safe_url(facts.url)}, "
                f"{facts.max_payload:,} bytes a message",
            )
        )
        monitor = await self._monitor(checks)
        before = time.time_ns()
        storage = await self._seen("the streams", bus.storage())
        after = time.time_ns()
        health = await self._seen("sources, copies and limits", bus.operations.health())
        now = after
        if storage is not None:
            now = storage.server_time or after
            checks += self._about_storage(storage, health or Health(), monitor)
            if storage.server_time:
                checks.append(check_clock(storage.server_time, before, after))
            if any(stream.exists for stream in storage.streams):
                checks += await self._about_agents(now, health or Health(), minutes)
                recent = await self._seen("the end of the log", _recent(bus, events))
                checks += [] if recent is None else check_recent(recent, now, hours)
        if health is not None:
            checks += check_expiries(health, after)
        return [*checks, *map(hidden, self._unseen)]

    async def _monitor(self, checks: list[Check]) -> Monitor | None:
        if not self._monitor_url:
            return None
        try:
            return await look_at_monitor(self._monitor_url)
        except MonitorError as error:
            checks.append(note("monitoring page", str(error), "look at --monitor or BUS_MONITOR"))
            return None

    def _about_storage(
        self, storage: StorageFacts, health: Health, monitor: Monitor | None
    ) -> list[Check]:
        self._unseen += health.unseen
        config = server_config(self._url)
        allowed = 0 if config is None else config.jetstream.limits.get("default_max_consumers", 0)
        sync = sync_interval(self._url)
        if monitor is not None:
            allowed = allowed or monitor.server.jetstream.limits.default_max_consumers
            sync = monitored_sync(monitor) if sync == UNKNOWN else sync
        copies = min((one.copies for one in storage.streams if one.exists), default=1)
        data: Path | None = data_folder(own_data(self._url), monitor)
        return [
            check_safety(sync, copies, explain(sync, copies)),
            *check_streams(storage),
            *check_copies(health),
            *check_delivery(health),
            *check_consumers(storage, health, allowed),
            *check_sizes(storage, health),
            *check_room(health.account, monitor, data),
            *check_slow(monitor, health.consumers),
        ]

    async def _about_agents(self, now: int, health: Health, minutes: float) -> list[Check]:
        bus = self._bus
        agents: list[LivingAgent] = list(
            await self._seen("the registry", bus.registry.agents()) or ()
        )
        beats = await self._seen("heartbeats", bus.registry.presence()) or ()
        waiting = await look_at_waiting(bus, inbox_streams(health, agents), agents)
        self._unseen += waiting.unseen
        return [
            *check_agents(agents, beats),
            *check_left(agents, health.consumers, waiting),
            check_waiting(waiting_rows(waiting, now), agents, minutes),
        ]


async def _recent(bus: Bus, events: int) -> list[Entry]:
    """Return the last entries of the log: as many of each partition, so that all are looked at."""
    each = max(1, events // bus.partitions)
    found = [await bus.operations.recent(each, number) for number in range(bus.partitions)]
    return sorted((entry for part in found for entry in part), key=lambda entry: entry.stored_at)


def _report(shell: Shell, checks: list[Check]) -> ExitCode:
    bad = [check for check in checks if check.verdict == "wrong"]
    if shell.json:
        shell.result(Diagnosis(healthy=not bad, checks=checks))
        return ExitCode.FAILED if bad else ExitCode.OK
    styles = {
        "ok": ("✓", "green"),
        "note": ("·", "yellow"),
        "unseen": ("?", "yellow"),
        "wrong": ("✗", "bold red"),
    }
    for check in checks:
        mark, style = styles[check.verdict]
        label = Text.assemble((f"{shell.symbol(mark):<3}", style), (f"{check.name:<21} ", "bold"))
        limit = f" (limit: {check.limit})" if check.limit else ""
        shell.paragraph(label, f"{check.found}{limit}")
        if check.advice:
            shell.paragraph(Text(" " * label.cell_len), check.advice, "yellow")
    shell.say()
    if bad:
        shell.say(f"{plural(len(bad), 'problem')} found", "bold red")
        return ExitCode.FAILED
    shell.say("nothing is wrong", "bold green")
    return ExitCode.OK
