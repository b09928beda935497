"""``bus guard``: mutes who says far more than its limits, whatever its own client does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results_operating import GuardLine
from threadbus.agents.cli.shell import Shell
from threadbus.agents.serving import stopping_on_signals
from threadbus.bus import (
    DEFAULT_TIMES,
    Bus,
    Runaway,
    RunawayGuard,
    access,
    record_runaway,
)

_LOOK_S: Final = 1.0
_MOST_S: Final = 30 * 86_400


@command("guard", panel="Set up", log_level="info")
async def guard(
    shell: Shell,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="The access folder; yours if absent.")
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant that it watches.")] = "main",
    times: Annotated[
        float, typer.Option("--times", min=1, help="How many times its limit one may say.")
    ] = DEFAULT_TIMES,
    mute_for: Annotated[
        float, typer.Option("--mute-for", min=1, max=_MOST_S, help="Seconds that it is muted.")
    ] = 60.0,
) -> None:
    """Watch the log beside the server and mute runaways; needs an operator's key and the folder."""
    muter = Muter(shell, access.AccessFolder(folder), tenant, timedelta(seconds=mute_for))
    muter.load()
    stop = asyncio.Event()
    async with shell.bus() as bus, stopping_on_signals(stop.set):
        muter.bus = bus
        watch = RunawayGuard(bus, muter.on_runaway, times=times)
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(watch.run(), name="threadbus.guard")
            ends = tasks.create_task(muter.run(), name="threadbus.guard.ends")
            await watch.ready.wait()
            shell.note(f"watching who says more than {times:g} times its limit")
            await stop.wait()
            work.cancel()
            ends.cancel()


class Muter:
    """Mutes runaways in an access folder, puts that on record, and ends it in time."""

    def __init__(
        self, shell: Shell, folder: access.AccessFolder, tenant: str, mute_for: timedelta
    ) -> None:
        self._shell = shell
        self._folder = folder
        self._tenant = tenant
        self._mute_for = mute_for
        self._ends: dict[str, datetime] = {}
        self._failures: dict[str, str] = {}
        self.bus: Bus | None = None

    def load(self) -> None:
        """Take over the mutes of a guard that ran before."""
        for tenant in self._folder.tenants():
            if tenant.name != self._tenant:
                continue
            for one in tenant.identities:
                if one.muted is not None and one.muted.until:
                    self._ends[one.name] = datetime.fromisoformat(one.muted.until)

    async def on_runaway(self, runaway: Runaway) -> None:
        """Mute whoever it is; somebody without an identity of that name is only recorded."""
        if self.bus is None:
            raise RuntimeError("there is no bus yet")
        until = datetime.now(UTC) + self._mute_for
        rule = runaway.rule
        reason = (
            f"{runaway.events:,} events within {runaway.seconds:.2f} s, and {rule.value:,} "
            f"{rule.limit.value.replace('_', ' ')} are allowed"
        )
        try:
            await self._folder.mute(
                runaway.sender, self._tenant, by=self.bus.name, reason=reason, until=until
            )
        except access.AccessError as error:
            self._say(runaway.sender, "not muted", f"{reason}; {error}")
            return
        self._ends[runaway.sender] = until
        try:
            reloaded = await access.reload_servers(self._folder.config)
        except access.AccessError as error:
            # A flooded server takes its time. Who goes on is named again.
            self._say(runaway.sender, "to be muted by a reload", f"{reason}; {error}")
            return
        self._say(runaway.sender, "muted" if reloaded else "to be muted by a reload", reason)
        await record_runaway(self.bus, runaway, until=int(until.timestamp() * 1e9), reason=reason)

    async def run(self) -> None:
        """End what is over, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = datetime.now(UTC)
            for name in [name for name, until in self._ends.items() if until <= now]:
                try:
                    if not self._is_over(name, now):
                        # Somebody has muted it anew, by hand perhaps, or let it speak.
                        del self._ends[name]
                        continue
                    await self._folder.unmute(name, self._tenant)
                    await access.reload_servers(self._folder.config)
                except access.AccessError as error:
                    # Another command is at it, or the server is busy: again in a moment.
                    self._failed(name, str(error))
                else:
                    del self._ends[name]
                    self._failures.pop(name, None)
                    self._say(name, "may speak again", "")

    def _is_over(self, name: str, now: datetime) -> bool:
        found = [
            tenant.find(name) for tenant in self._folder.tenants() if tenant.name == self._tenant
        ]
        return any(one is not None and one.muted and one.muted.is_over(now) for one in found)

    def _failed(self, name: str, reason: str) -> None:
        """Say once why somebody stays muted."""
        if self._failures.get(name) != reason:
            self._failures[name] = reason
            self._say(name, "still muted", reason)

    def _say(self, agent: str, what: str, reason: str) -> None:
        if self._shell.json:
            self._shell.result(GuardLine(agent=agent, done=what, reason=reason))
        else:
            self._shell.say(f"{agent} {what}" + (f": {reason}" if reason else ""))
