"""``bus tasks``, ``threads``, ``agents`` and ``watch``: look without touching."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.follow import closing
from threadbus.agents.cli.live import LiveView
from threadbus.agents.cli.lookup import find_task
from threadbus.agents.cli.results import AgentRow, Agents, Tasks, ThreadRow, Threads
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import ago, neutral, one_line
from threadbus.bus import LivingAgent
from threadbus.schemas import (
    MAIN_THREAD,
    PresenceState,
    Recorded,
    TaskClosed,
    TaskStatus,
    export_line,
)

_STATUS_STYLES = {
    TaskStatus.COMPLETED: "green",
    TaskStatus.FAILED: "red",
    TaskStatus.CANCELLED: "red",
    TaskStatus.INPUT_REQUIRED: "yellow",
}


@command("tasks", panel="Look")
async def tasks(
    shell: Shell,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 20,
) -> None:
    """List super-tasks, the newest first."""
    if not 1 <= limit <= 100_000:
        raise UsageError("--limit", str(limit), "1 to 100,000")
    async with shell.bus() as bus:
        found = list(await bus.tasks.list(limit=limit))
    if shell.json:
        shell.result(Tasks(tasks=found))
        return
    if not found:
        shell.note("no super-tasks yet; open one with `bus ask`", "dim")
        return
    shown = table("super-task", "status", "opened", "by", "title")
    for column in shown.columns[:4]:
        column.no_wrap = True
    for row in found:
        style = _STATUS_STYLES.get(row.status, "cyan")
        title = one_line(row.title, 60)
        shown.add_row(
            row.task,
            cell(row.status.replace("_", " "), style),
            ago(row.opened_at),
            cell(row.opened_by),
            cell(title),
        )
    shell.table(shown)


@command("threads", panel="Look")
async def threads(
    shell: Shell,
    task: Annotated[str, typer.Argument(help="The super-task: its id or the beginning of it.")],
) -> None:
    """List the threads of a super-task and who takes part."""
    async with shell.bus() as bus:
        state = await bus.tasks.state(await find_task(bus, task))
    rows = sorted(
        (thread for thread in state.threads.values() if thread.exists),
        key=lambda thread: (thread.thread != MAIN_THREAD, thread.opened_at),
    )
    if shell.json:
        shell.result(
            Threads(
                task=state.task,
                status=state.status,
                threads=[
                    ThreadRow(
                        thread=row.thread,
                        title=row.title,
                        parent=row.parent,
                        is_open=row.is_open,
                        creator=row.creator,
                        participants=list(row.participants),
                        conversation=row.conversation,
                        outcome=row.outcome,
                        summary=row.summary,
                        opened_at=row.opened_at,
                    )
                    for row in rows
                ],
            )
        )
        return
    shell.say(Text.assemble((f"{state.task} ", "dim"), neutral(f"{state.title}: {state.status}")))
    shown = table("thread", "state", "participants", "title")
    for row in rows:
        condition = row.conversation.value.replace("_", " ") if row.is_open else row.outcome
        shown.add_row(
            cell(row.thread),
            cell(condition, "cyan" if row.is_open else "dim"),
            cell(", ".join(row.participants)),
            cell(one_line(row.title, 60)),
        )
    shell.table(shown)


@command("agents", panel="Look")
async def agents(
    shell: Shell,
    living: Annotated[bool, typer.Option("--living", help="Only those with a heartbeat.")] = False,
) -> None:
    """List the agents: who lives, what they do, and how much waits for them."""
    async with shell.bus() as bus:
        found = await bus.registry.agents()
        waiting = await bus.pending_mentions()
    rows = [agent for agent in found if agent.is_living or not living]
    if shell.json:
        shell.result(Agents(agents=[_agent(row, waiting.get(row.name, 0)) for row in rows]))
        return
    if not rows:
        shell.note("no agents yet; `bus init` makes one, `bus run` starts it", "dim")
        return
    shown = table("agent", "state", "waiting", "what it can do", right=("waiting",))
    for row in rows:
        count = waiting.get(row.name, 0)
        shown.add_row(
            cell(row.name, "bold"),
            _state(row),
            Text(f"{count:,}", "yellow" if count and not row.is_living else ""),
            cell(one_line(row.record.card.description or row.record.card.title, 120)),
        )
    shell.table(shown)


def _agent(agent: LivingAgent, waiting: int) -> AgentRow:
    record = agent.record
    return AgentRow(
        name=agent.name,
        living=agent.is_living,
        waiting=waiting,
        card=record.card,
        holder=record.holder,
        replicas=record.replicas,
        registered_at=record.registered_at,
        instances=list(agent.instances),
    )


def _state(agent: LivingAgent) -> Text:
    if not agent.is_living:
        return Text("gone", "red")
    count = f" x{len(agent.instances)}" if len(agent.instances) > 1 else ""
    busy = [beat for beat in agent.instances if beat.state is not PresenceState.IDLE]
    if not busy:
        return Text(f"idle{count}", "green")
    doing = one_line(busy[0].busy_with, 40)
    return Text(f"{busy[0].state}{count}" + (f": {doing}" if doing else ""), "cyan")


@command("watch", panel="Look")
async def watch(
    shell: Shell,
    task: Annotated[str, typer.Argument(help="The super-task: its id or the beginning of it.")],
    after: Annotated[int, typer.Option(help="Only what is later than this sequence.")] = 0,
) -> None:
    """Print the events of a super-task as they come, until it ends.

    With --json one entry of the log a line, as `busreplay --file` reads it.
    """
    view = LiveView(shell.out)
    async with shell.bus() as bus:
        found = await find_task(bus, task)
        state = await bus.tasks.state(found)
        ended = not state.is_open
        entries = bus.read(found, after=after) if ended else bus.follow(found, after=after)
        async with closing(entries):
            async for entry in entries:
                if shell.json:
                    sys.stdout.buffer.write(export_line(entry))
                    sys.stdout.buffer.flush()
                elif isinstance(entry, Recorded):
                    view.show(entry)
                else:
                    view.show_rejected(entry)
                closes = isinstance(entry, Recorded) and isinstance(entry.event.data, TaskClosed)
                if closes and not ended:
                    return
