"""``busreplay fork``: go on from a point of a past run, in a super-task of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import typer

from threadbus.bus import (
    ArtifactError,
    Bus,
    BusSettings,
    PermissionDeniedError,
    UnknownAgentError,
    connect,
)
from threadbus.replay.errors import ForkError
from threadbus.replay.export import FileSource
from threadbus.replay.forking import ForkPlan, plan_fork, write_fork
from threadbus.replay.lookup import find_task
from threadbus.replay.point import PointOption, find_point, whole
from threadbus.replay.source import BusSource, Source
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    Progress,
    TimeoutOption,
    UrlOption,
    make_app,
    run,
    stop,
)
from threadbus.replay.text import first_line, plural
from threadbus.schemas import (
    Recorded,
    ReferencePart,
    TaskId,
    TaskOpened,
    new_task_id,
)

_MAX_CHECKED: Final = 100
"""Artifacts that are looked for on the server that the fork is written to."""

app = make_app()


class _Result(msgspec.Struct, kw_only=True):
    task: TaskId
    forked_from: TaskId
    seq: int
    copied: int
    found: int
    woken: dict[str, int]
    not_running: list[str]
    notes: list[str]
    is_written: bool


@app.command()
def fork(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="The run, by its id or the start of it.")
    ] = "",
    at: PointOption = "",
    edit: Annotated[
        str,
        typer.Option(
            "--with", metavar="TEXT", help="What the last thing asked up to N is to say instead."
        ),
    ] = "",
    resume: Annotated[
        str, typer.Option("--resume", metavar="FORK", help="Finish a fork that broke off.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    file: FileOption = None,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Make a new super-task that begins with a copy of a run up to N and then goes on with the
    agents that are living now.

    Copies wake nobody. Agents that had not settled a mention at N are woken again for it. Whoever
    forks speaks under the names of all who spoke, so the credentials must allow that.
    """
    if not resume and not at:
        stop("say where: --at N, a sequence or the id of an event", ExitCode.USAGE)
    if resume and (at or edit or task):
        stop("--resume FORK knows its run, point and text; give it alone", ExitCode.USAGE)
    if not resume and not task.strip() and file is None:
        stop("name a super-task: busreplay fork TASK --at N", ExitCode.USAGE)
    settings = BusSettings.from_env(
        url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout
    )

    async def forked() -> None:
        async with connect(settings) as bus:
            source: Source = BusSource(bus) if file is None else FileSource(file)
            if resume:
                plan = await _plan_again(bus, source, resume)
            else:
                found, entries = await whole(source, task)
                point = find_point(entries, at)
                plan = plan_fork(entries, point, new_task_id(), now=time.time_ns(), edit=edit)
                _check_same(found, plan)
            await _fork(bus, plan, dry_run=dry_run, as_json=as_json, is_from_file=file is not None)

    run(forked())


def _check_same(found: TaskId, plan: ForkPlan) -> None:
    if plan.origin.task != found:
        raise ForkError(found, f"its log begins with {plan.origin.task}", "name that one")


async def _plan_again(bus: Bus, source: Source, wanted: str) -> ForkPlan:
    fork_id = await find_task(BusSource(bus), wanted)
    opening: TaskOpened | None = None
    async for entry in bus.read(fork_id):
        if isinstance(entry, Recorded) and isinstance(entry.event.data, TaskOpened):
            opening = entry.event.data
            break
    if opening is None or opening.forked_from is None:
        raise ForkError(fork_id, "it is no fork", "name one; `busreplay FORK` says so")
    origin = opening.forked_from
    _, entries = await whole(source, origin.task)
    return plan_fork(entries, origin.seq, fork_id, now=time.time_ns(), edit=origin.edit)


async def _fork(
    bus: Bus, plan: ForkPlan, *, dry_run: bool, as_json: bool, is_from_file: bool
) -> None:
    woken: dict[str, int] = {}
    for wake in plan.wakes:
        woken[wake.agent] = woken.get(wake.agent, 0) + 1
    try:
        await bus.registry.check_known(list(woken))
    except UnknownAgentError as error:
        way_out = "start the agents of the run first (`bus run`); a fork goes on with those"
        raise ForkError(plan.origin.task, str(error), way_out) from error
    living = {agent.name for agent in await bus.registry.living()}
    notes = list(plan.notes)
    if is_from_file:
        notes += await _missing_artifacts(bus, plan)
    copied = found = 0
    if not dry_run:
        with Progress(shown=not as_json) as progress:
            try:
                written = await write_fork(bus, plan, progress)
            except PermissionDeniedError as error:
                way_out = "fork with credentials that may publish under every name"
                raise ForkError(plan.origin.task, str(error), way_out) from error
        copied, found = written.copied, written.found
    result = _Result(
        task=plan.task,
        forked_from=TaskId(plan.origin.task),
        seq=plan.origin.seq,
        copied=copied,
        found=found,
        woken=woken,
        not_running=[name for name in woken if name not in living],
        notes=notes,
        is_written=not dry_run,
    )
    if as_json:
        typer.echo(msgspec.json.encode(result).decode())
    else:
        _tell(result, plan)


async def _missing_artifacts(bus: Bus, plan: ForkPlan) -> list[str]:
    """Say which content the copies name and this server does not have."""
    named: dict[str, ReferencePart] = {}
    for event in plan.copies:
        parts = getattr(event.data, "parts", ()) or (getattr(event.data, "part", None),)
        named.update({part.sha256: part for part in parts if isinstance(part, ReferencePart)})
    missing: list[str] = []
    for part in list(named.values())[:_MAX_CHECKED]:
        try:
            await bus.artifacts.get(part)
        except ArtifactError as error:
            missing.append(f"artifact {first_line(part.name, 60) or part.sha256[:12]}: {error}")
    return missing


def _tell(result: _Result, plan: ForkPlan) -> None:
    lines: list[str] = []
    if result.is_written:
        lines.append(f"fork {result.task} of {result.forked_from} at its entry {result.seq:,}")
        again = f", {result.found:,} were there" if result.found else ""
        lines.append(f"{plural(result.copied, 'event')} copied{again}")
    else:
        lines.append(f"would fork {result.forked_from} at its entry {result.seq:,}")
        lines.append(f"{plural(len(plan.copies), 'event')} would be copied; nothing was written")
    lines += _wake_lines(result.woken, result.not_running)
    lines.append("not taken along:")
    lines += [f"  {first_line(note, 300)}" for note in result.notes]
    if result.is_written:
        lines.append(f"busreplay {result.task} --follow shows how it goes on")
    for line in lines:
        typer.echo(line)


def _wake_lines(woken: dict[str, int], not_running: Sequence[str]) -> list[str]:
    if not woken:
        return ["nobody had anything open: the fork waits until somebody writes to it"]
    return [
        f"woken again: {name}, for {plural(count, 'mention')}"
        + (" (not running: the mention waits)" if name in not_running else "")
        for name, count in woken.items()
    ]
