"""``bus reply``, ``bus send`` and ``bus cancel``: say something into a super-task."""

from __future__ import annotations

from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.asking import tell_stored
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.lookup import find_task
from threadbus.agents.cli.results import Said
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import typed
from threadbus.bus import Appended
from threadbus.schemas import EventId, parse_event_id, parse_thread_id

Task = Annotated[str, typer.Argument(help="The super-task: its id or the beginning of it.")]


@command("reply", panel="Ask a team")
async def reply(
    shell: Shell,
    task: Task,
    text: Annotated[str, typer.Argument(help="The answer to what was asked.")],
    request: Annotated[
        str | None, typer.Option(help="Which request, where several are open (its event id).")
    ] = None,
) -> None:
    """Answer what a super-task asks of you."""
    wanted: EventId | None = None if request is None else parse_event_id(request)
    if not text.strip():
        raise UsageError("TEXT", "", "the answer is empty")
    async with shell.bus() as bus:
        found = await find_task(bus, task)
        _said(shell, await bus.tasks.give_input(found, typed(text), request=wanted), [], "answered")


@command("send", panel="Ask a team")
async def send(
    shell: Shell,
    task: Task,
    text: Annotated[str, typer.Argument(help="The message.")],
    thread: Annotated[str, typer.Option(help="The thread.")] = "main",
    mention: Annotated[
        list[str] | None, typer.Option("--mention", "-m", help="Whom it wakes; repeat.")
    ] = None,
) -> None:
    """Post a message into a thread; those mentioned are woken."""
    where = parse_thread_id(thread)
    if not text.strip():
        raise UsageError("TEXT", "", "the message is empty")
    names = list(dict.fromkeys(mention or []))
    async with shell.bus() as bus:
        found = await find_task(bus, task)
        posted = await bus.send(found, where, typed(text), mentions=names)
        agents = await bus.registry.agents() if names else ()
        stored = await tell_stored(bus, agents, names, found, where, posted.event.id, shell)
        _said(shell, posted, stored, "posted")


@command("cancel", panel="Ask a team")
async def cancel(
    shell: Shell,
    task: Task,
    reason: Annotated[str, typer.Option(help="Why; agents and people read it.")] = "",
) -> None:
    """End a super-task without an answer; agents that work on it stop."""
    async with shell.bus() as bus:
        found = await find_task(bus, task)
        _said(shell, await bus.tasks.cancel(found, typed(reason)), [], "cancelled")


def _said(shell: Shell, appended: Appended, stored: list[str], done: str) -> None:
    event = appended.event
    if shell.json:
        shell.result(
            Said(task=event.task, thread=event.thread, id=event.id, seq=appended.seq, stored=stored)
        )
    else:
        shell.say(f"{done}: {event.type} {event.id} in {event.thread} of {event.task}")
