"""``bus demo``: a team of four agents at work on real files, from nothing to an answer."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.asking import answer_parts
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.follow import follow
from threadbus.agents.cli.live import LiveView
from threadbus.agents.cli.results import Demo
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import neutral
from threadbus.agents.demo import DemoTeam, demo_team, export
from threadbus.agents.teams.script import (
    DEFAULT_TEAM,
    TEAMS,
    DemoError,
    TeamScript,
    load_team,
)
from threadbus.bus import AppendError, TaskState
from threadbus.schemas import InputRequested, Recorded, TaskId, TaskStatus, text_of

_PLAYBOOK_TIME: Final = timedelta(minutes=2)
_MODEL_TIME: Final = timedelta(minutes=15)


@command("demo", panel="Ask a team")
async def demo(
    shell: Shell,
    team_name: Annotated[
        str, typer.Argument(metavar="TEAM", help=f"Which team: {', '.join(TEAMS)}.")
    ] = DEFAULT_TEAM,
    model: Annotated[
        str,
        typer.Option(
            help="A real model, by OPENAI_API_KEY and OPENAI_BASE_URL, instead of a playbook."
        ),
    ] = "",
) -> None:
    """See a team of agents answer a question, on real input.

    Starts a server, the agents as processes of their own and, without --model, a playbook server
    that answers in place of a model. All of them are gone at the end; the data is kept. Kill an
    agent (`kill -9`): it is started again, and goes on.
    """
    script = load_team(team_name)
    parts = script.question()
    with _ended_by_sigterm():
        if not shell.json:
            shell.say(script.about, "bold")
            shell.say("starting a server and the agents…", "dim")
        async with demo_team(script, model) as team:
            if not shell.json:
                _introduce(shell, script, team)
            opened = await team.bus.tasks.open(
                parts, to=script.to, participants=script.participants
            )
            task = opened.event.task
            async with _answering(team, task, script.replies):
                state = await _watch(shell, team, task, _MODEL_TIME if model else _PLAYBOOK_TIME)
            # What they observe of their last turn comes after the answer.
            await team.stop_agents()
            path = await export(team.bus, task)
            answer = await answer_parts(team.bus, state)
            if answer is None or state.status is not TaskStatus.COMPLETED:
                detail = f"see what happened:  {_replay(task, path)}"
                raise DemoError(f"the team ended {state.status}: {state.summary}", detail)
            _conclude(shell, team, task, text_of(answer), path)


async def _watch(shell: Shell, team: DemoTeam, task: TaskId, limit: timedelta) -> TaskState:
    view = None if shell.json else LiveView(shell.out)
    following = asyncio.create_task(_follow(shell, team, task, view), name="threadbus.demo.follow")
    keeping = team.keep_running(lambda name: tell_restart(shell, name))
    ended = asyncio.create_task(keeping, name="threadbus.demo.agents")
    try:
        done, _ = await asyncio.wait(
            {following, ended},
            timeout=limit.total_seconds(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if following in done:
            return following.result()
        if ended in done:
            raise DemoError(ended.result())
        raise DemoError(f"no answer within {limit}; the logs of the agents are in {team.logs}")
    finally:
        for task_ in (following, ended):
            task_.cancel()
        await asyncio.gather(following, ended, return_exceptions=True)


def tell_restart(shell: Shell, name: str) -> None:
    """Say that an agent of a team was killed."""
    shell.note(f"agent {name} was killed, and is started again", "yellow")


async def _follow(shell: Shell, team: DemoTeam, task: TaskId, view: LiveView | None) -> TaskState:
    if view is None:
        return await follow(shell, team.bus, task, None)
    with view:
        state = await follow(shell, team.bus, task, view)
    view.end(state)
    return state


@asynccontextmanager
async def _answering(team: DemoTeam, task: TaskId, replies: Sequence[str]) -> AsyncGenerator[None]:
    """Give the answers of the person who asked, as questions come; there is nobody at the keys."""

    async def answer() -> None:
        left = list(replies)
        async for entry in team.bus.follow(task):
            if isinstance(entry, Recorded) and isinstance(entry.event.data, InputRequested):
                said = left.pop(0) if left else "Decide that yourself."
                with suppress(AppendError):
                    await team.bus.tasks.give_input(task, said, request=entry.event.id)

    answering = asyncio.create_task(answer(), name="threadbus.demo.answering")
    try:
        yield
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


def _introduce(shell: Shell, script: TeamScript, team: DemoTeam) -> None:
    pids = ", ".join(f"{name} {process.pid}" for name, process in team.processes.items())
    shell.say(Text.assemble(("  server   ", "bold"), team.url))
    shell.say(Text.assemble(("  agents   ", "bold"), f"{pids} (processes)"))
    if team.playbook is None:
        shell.say(Text.assemble(("  model    ", "bold"), neutral(team.model)))
    else:
        shell.say(
            Text.assemble(
                ("  model    ", "bold"),
                ("none: a playbook says the words, ", "yellow"),
                (script.is_real, "yellow"),
            )
        )
    shell.say()


def _conclude(shell: Shell, team: DemoTeam, task: TaskId, answer: str, path: Path) -> None:
    replay = _replay(task, path)
    if shell.json:
        shell.result(
            Demo(
                task=task,
                answer=answer,
                playbook=team.playbook is not None,
                file=str(path),
                replay=replay,
            )
        )
        return
    shell.say()
    shell.say("The answer:", "bold green")
    shell.answer(answer)
    shell.say()
    shell.say(Text.assemble(("super-task  ", "bold"), task))
    shell.say(Text.assemble(("see it again, from its log alone:", "bold")))
    shell.say(f"  {replay}")
    shell.say(Text.assemble(("keep a server running, for agents of your own:", "bold")))
    shell.say(f"  {_program('bus')} up")
    sys.stdout.flush()


def _replay(task: TaskId, path: Path) -> str:
    return f"{_program('busreplay')} {task} --file {shlex.quote(str(path))}"


def _program(name: str) -> str:
    """Return how a person can call one of our commands from here."""
    if shutil.which(name) is not None:
        return name
    path = Path(sys.executable).parent / name
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return shlex.quote(str(path))


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end this as Ctrl-C does: everything that was started is gone afterwards."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    was_ended = False

    def end() -> None:
        nonlocal was_ended
        was_ended = True
        if main is not None:
            main.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if was_ended:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
