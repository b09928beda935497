"""``bus eval``: questions with known answers, put to a team; how many it gets right."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.demonstrating import tell_restart
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results import Evaluated
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import one_line, plural
from threadbus.agents.demo import demo_team
from threadbus.agents.evaluation import (
    Evaluation,
    Outcome,
    Prices,
    Records,
    RecordsError,
    Report,
    make_report,
    read_questions,
    to_markdown,
)
from threadbus.agents.evaluation.records import Header
from threadbus.agents.evaluation.running import INSTRUCTION
from threadbus.agents.teams.script import TEAMS, DemoError, TeamScript, load_team
from threadbus.bus import Bus

MOST_ATTEMPTS: Final = 100
MOST_PARALLEL: Final = 64
_MOST_SECONDS: Final = 86_400.0
_ENDING: Final = ".results.jsonl"


@command("eval", panel="Ask a team")
async def evaluate(
    shell: Shell,
    file: Annotated[
        Path,
        typer.Argument(
            help="Questions, one JSON object a line; docs/evaluation.md has the fields."
        ),
    ],
    team: Annotated[
        str,
        typer.Option(help=f"Start this team and ask it: {', '.join(TEAMS)}."),
    ] = "",
    to: Annotated[
        list[str] | None,
        typer.Option("--to", "-t", help="Ask agents that live on the bus instead; repeat."),
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", "-w", help="Who else may take part; repeat."),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Attempts at each question.")] = 1,
    parallel: Annotated[int, typer.Option(help="Attempts at the same time.")] = 1,
    model: Annotated[
        str, typer.Option(help="With --team: a real model instead of its playbook.")
    ] = "",
    playbook: Annotated[
        Path | None, typer.Option(help="With --team: a playbook instead of its own.")
    ] = None,
    files: Annotated[
        Path | None, typer.Option(help="The folder of the files; that of FILE if absent.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Where results are kept, and gone on from; FILE.results.jsonl here."),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one attempt.")] = 600.0,
    budget: Annotated[
        int | None, typer.Option(help="Model tokens that one attempt may use.")
    ] = None,
    input_price: Annotated[
        float | None, typer.Option(help="Dollars for a million tokens given to a model.")
    ] = None,
    output_price: Annotated[
        float | None, typer.Option(help="Dollars for a million tokens that a model gives.")
    ] = None,
    no_instruction: Annotated[
        bool,
        typer.Option("--no-instruction", help="Ask without saying how the answer has to look."),
    ] = False,
) -> ExitCode:
    """Put questions with known answers to a team, and report how many it gets right.

    Each attempt is a super-task of its own. What came of it is kept as it comes: the same command
    goes on where a run was ended or killed. The report is written as Markdown and JSON beside it.
    """
    _check(team, to, model, playbook)
    _within("--k", k, 1, MOST_ATTEMPTS)
    _within("--parallel", parallel, 1, MOST_PARALLEL)
    _within("--timeout", timeout, 0.1, _MOST_SECONDS)
    if budget is not None:
        _within("--budget", budget, 1, 2**53)
    # Before anything is started: whatever is wrong with the file is told at once.
    questions = read_questions(file, files=files)
    kept = results or Path(f"{file.stem}{_ENDING}")
    evaluation = Evaluation(
        questions=questions,
        folder=files or file.parent,
        to=to or (),
        participants=with_ or (),
        attempts=k,
        parallel=parallel,
        timeout=timedelta(seconds=timeout),
        token_budget=budget,
        prices=_prices(input_price, output_price),
        instruction="" if no_instruction else INSTRUCTION,
        max_file_bytes=shell.settings().artifact_max_bytes,
    )
    who = _who(team, to or [], model, playbook)
    header = Header(questions=str(file), asked=who, started_at=time.time_ns())
    with Records(kept, header) as records:
        left = len(evaluation.left(records))
        total = len(questions) * k
        shell.note(f"{plural(len(questions), 'question')}, {left} of {total} attempts to make")
        shell.detach_hint = "ended; the same command goes on from here"
        if left:
            await _run(shell, evaluation, records, team, model, playbook, left)
        report = make_report(questions, records, file=str(file), asked=who, attempts=k)
    _hand_over(shell, report, kept)
    return ExitCode.OK


async def _run(
    shell: Shell,
    evaluation: Evaluation,
    records: Records,
    team: str,
    model: str,
    playbook: Path | None,
    left: int,
) -> None:
    done = 0

    def tell(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        verdict = {True: "right", False: "wrong", None: "not scored"}[outcome.right]
        said = one_line(outcome.said or outcome.why or outcome.status, 60)
        shell.note(f"[{done}/{left}] {outcome.question} #{outcome.attempt}: {verdict}: {said}")

    if not team:
        async with shell.bus() as bus:
            living = {agent.name for agent in await bus.registry.agents() if agent.is_living}
            gone = [name for name in evaluation.to if name not in living]
            if gone:
                shell.note(f"not living now, questions wait: {', '.join(gone)}", "yellow")
            await evaluation.run(bus, records, tell)
        return
    script = load_team(team)
    if playbook is not None:
        script = dataclasses.replace(script, playbook=playbook)
    async with _team(shell, script, model) as bus:
        asked = dataclasses.replace(evaluation, to=script.to, participants=script.participants)
        await asked.run(bus, records, tell)


@asynccontextmanager
async def _team(shell: Shell, script: TeamScript, model: str) -> AsyncGenerator[Bus]:
    """Run a team; where one of it ends for good, no question waits for it."""
    shell.note("starting a server and the agents…", "dim")
    async with demo_team(script, model) as running:

        async def keep() -> None:
            raise DemoError(await running.keep_running(lambda name: tell_restart(shell, name)))

        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(keep(), name="threadbus.eval.agents")
            yield running.bus
            keeping.cancel()


def _hand_over(shell: Shell, report: Report, kept: Path) -> None:
    """Write the report beside the results, and say what it comes to."""
    stem = kept.name.removesuffix(_ENDING).removesuffix(".jsonl")
    markdown, data = kept.with_name(f"{stem}.report.md"), kept.with_name(f"{stem}.report.json")
    _write(markdown, to_markdown(report).encode())
    _write(data, msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if shell.json:
        shell.result(
            Evaluated(
                report=str(markdown),
                data=str(data),
                results=str(kept),
                questions=report.questions,
                scored=report.scored,
                ended=report.ended,
                without_answer=report.without_answer,
                pass_at=report.pass_at,
                input_tokens=report.input_tokens,
                output_tokens=report.output_tokens,
                cost=report.cost,
            )
        )
        return
    shown = "  ".join(f"pass@{n} {100 * value:.1f} %" for n, value in enumerate(report.pass_at, 1))
    shell.say(f"{shown}  ({report.scored} of {plural(report.questions, 'question')} scored)")
    shell.say(f"{report.input_tokens + report.output_tokens:,} tokens")
    if report.cost is not None:
        shell.say(f"{report.cost:.4f} dollars")
    shell.say(f"report: {markdown}, {data}")


def _write(path: Path, content: bytes) -> None:
    """Replace a file whole."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        raise RecordsError(str(path), error.strerror or str(error)) from error


def _check(team: str, to: list[str] | None, model: str, playbook: Path | None) -> None:
    if bool(team) == bool(to):
        raise UsageError("--team", team, "give either --team NAME or --to AGENT")
    if team:
        load_team(team)
    if (model or playbook) and not team:
        raise UsageError("--model", model, "it goes with --team; agents have a model of their own")
    if model and playbook:
        raise UsageError("--playbook", str(playbook), "give it or --model, not both")


def _within(flag: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(flag, f"{value:g}", f"a number from {least:g} to {most:,.0f}")


def _prices(given: float | None, gives: float | None) -> Prices | None:
    if given is None and gives is None:
        return None
    for flag, value in (("--input-price", given), ("--output-price", gives)):
        if value is None:
            raise UsageError(flag, "", "give both prices, or none")
        _within(flag, value, 0, 1_000_000)
    return Prices(given or 0.0, gives or 0.0)


def _who(team: str, to: list[str], model: str, playbook: Path | None) -> str:
    if not team:
        return ", ".join(to)
    return f"team {team} with {model or f'playbook {playbook.name if playbook else team}'}"
