"""``bus ask`` and ``bus attach``: open a super-task or come back to one, and see its answer."""

from __future__ import annotations

import asyncio
import mimetypes
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.follow import follow
from threadbus.agents.cli.live import LiveView
from threadbus.agents.cli.lookup import find_task
from threadbus.agents.cli.results import Asked
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import typed
from threadbus.bus import (
    ArtifactTooLargeError,
    Bus,
    BusSettings,
    LivingAgent,
    TaskState,
    WaitTimeoutError,
)
from threadbus.schemas import (
    AnswerSubmitted,
    EventId,
    FilePart,
    MentionStored,
    Part,
    TaskId,
    TaskStatus,
    TextPart,
    ThreadId,
    text_of,
)

_MAX_STDIN: int = 16 * 1024 * 1024

Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds to wait for the answer; the super-task goes on after it."),
]


@command("ask", panel="Ask a team")
async def ask(
    shell: Shell,
    text: Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.")],
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="A file that goes with it; repeat.")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", "-t", help="Who is asked; repeat. The one living agent if absent."),
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", "-w", help="Who else may take part; repeat."),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Print the id of the super-task and end.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option(help="Model tokens that the whole super-task may use.")
    ] = None,
    timeout: Timeout = None,
) -> ExitCode:
    """Ask a team of agents, watch it work, and print the answer.

    The conversation goes to standard error, the answer alone to standard output. Ctrl-C leaves
    the super-task running; `bus attach TASK` comes back to it.
    """
    settings = shell.settings()
    if budget is not None and budget < 1:
        raise UsageError("--budget", str(budget), "a whole number above 0")
    limit = _timeout(timeout)
    parts = [TextPart(_question(text)), *_files(file or [], settings)]
    async with shell.bus() as bus:
        agents = await bus.registry.agents()
        asked = list(dict.fromkeys(to or [_only(agents)]))
        opened = await bus.tasks.open(
            parts, to=asked, participants=with_ or [], token_budget=budget
        )
        task = opened.event.task
        shell.detach_hint = _detached(task)
        stored = await tell_stored(
            bus, agents, asked, task, opened.event.thread, opened.event.id, shell
        )
        if no_wait:
            if shell.json:
                shell.result(Asked(task=task, status=TaskStatus.WORKING, stored=stored))
            else:
                shell.say(task)
                shell.note(f"watch it with:  bus attach {task}", "dim")
            return ExitCode.OK
        return await _to_the_end(shell, bus, task, limit, stored)


@command("attach", panel="Ask a team")
async def attach(
    shell: Shell,
    task: Annotated[str, typer.Argument(help="The super-task: its id or the beginning of it.")],
    timeout: Timeout = None,
) -> ExitCode:
    """Come back to a super-task: see what happened, go on live, print the answer.

    Ends as `ask` does.
    """
    limit = _timeout(timeout)
    async with shell.bus() as bus:
        found = await find_task(bus, task)
        shell.detach_hint = _detached(found)
        return await _to_the_end(shell, bus, found, limit, [])


async def tell_stored(
    bus: Bus,
    agents: Sequence[LivingAgent],
    asked: list[str],
    task: TaskId,
    thread: ThreadId,
    cause: EventId,
    shell: Shell,
) -> list[str]:
    """Say which of those asked are not living, here and in the log; return them."""
    living = {agent.name for agent in agents if agent.is_living}
    gone = [name for name in asked if name not in living and name != bus.name]
    if gone:
        await bus.append(MentionStored(agents=tuple(gone)), task=task, thread=thread, cause=cause)
        shell.note(
            f"stored: {', '.join(gone)} not living now; it waits until started with `bus run`",
            "yellow",
        )
    return gone


async def _to_the_end(
    shell: Shell, bus: Bus, task: TaskId, limit: timedelta | None, stored: list[str]
) -> ExitCode:
    shell.note(f"super-task {task}", "dim")
    view = None if shell.json else LiveView(shell.err)
    try:
        async with asyncio.timeout(None if limit is None else limit.total_seconds()):
            if view is None:
                state = await follow(shell, bus, task, None, stored)
            else:
                with view:
                    state = await follow(shell, bus, task, view, stored)
    except TimeoutError:
        seconds = 0.0 if limit is None else limit.total_seconds()
        shell.note(_detached(task))
        raise WaitTimeoutError(f"the answer to super-task {task}", seconds) from None
    shell.detach_hint = ""
    if view is not None:
        view.end(state)
    return await _print_answer(shell, bus, state, stored)


async def _print_answer(shell: Shell, bus: Bus, state: TaskState, stored: list[str]) -> ExitCode:
    parts = await answer_parts(bus, state)
    answered = parts is not None and state.status is TaskStatus.COMPLETED
    if shell.json:
        shell.result(
            Asked(
                task=state.task,
                status=state.status,
                answer=text_of(parts) if parts is not None else None,
                parts=parts or (),
                summary=state.summary,
                stored=stored,
                tokens=state.tokens_used,
                events=state.events,
            )
        )
    elif parts is not None and answered:
        shell.note()
        shell.answer(text_of(parts))
    else:
        reason = f": {state.summary}" if state.summary else ""
        shell.error(f"the super-task ended without an answer: {state.status}{reason}")
        shell.note(f"see what happened:  busreplay {state.task}", "dim")
    return ExitCode.OK if answered else ExitCode.FAILED


async def answer_parts(bus: Bus, state: TaskState) -> tuple[Part, ...] | None:
    """Return the answer of a super-task with what is in the object store, None without one."""
    event = state.answer
    if event is None or not isinstance(event.data, AnswerSubmitted):
        return None
    return tuple([await bus.artifacts.load(part) for part in event.data.parts])


def _only(agents: Sequence[LivingAgent]) -> str:
    living = [agent.name for agent in agents if agent.is_living]
    if len(living) == 1:
        return living[0]
    known = (
        f"these live: {', '.join(living)}"
        if living
        else ("no agent lives here; start one with `bus run`, or see `bus demo`")
    )
    raise UsageError("--to", "", f"say who is asked; {known}")


def _timeout(seconds: float | None) -> timedelta | None:
    if seconds is None:
        return None
    if not 0 < seconds <= 86_400 * 365:
        raise UsageError("--timeout", f"{seconds:g}", "seconds above 0, at most a year")
    return timedelta(seconds=seconds)


def _question(text: str) -> str:
    if text == "-":
        content = sys.stdin.buffer.read(_MAX_STDIN + 1)
        if len(content) > _MAX_STDIN:
            raise UsageError(
                "TEXT", "-", f"standard input is over {_MAX_STDIN:,} bytes; use --file"
            )
        text = content.decode("utf-8", "replace")
    if not text.strip():
        raise UsageError("TEXT", "", "the question is empty")
    return typed(text)


def _files(paths: list[Path], settings: BusSettings) -> list[Part]:
    """Read the files, each bounded by what one artifact may have."""
    return [_file(path, settings.artifact_max_bytes) for path in paths]


def _file(path: Path, limit: int) -> FilePart:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise UsageError("--file", str(path), error.strerror or str(error)) from error
    if len(content) > limit:
        raise ArtifactTooLargeError(max(len(content), path.stat().st_size), limit)
    kind, _ = mimetypes.guess_type(path.name)
    return FilePart(content, typed(path.name), kind or "application/octet-stream")


def _detached(task: TaskId) -> str:
    return (
        "detached; the super-task goes on\n"
        f"  come back:  bus attach {task}\n"
        f"  end it:     bus cancel {task}"
    )
