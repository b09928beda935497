"""The command ``busreplay``: options in, a run out, an exit code that says how it went.

The first word may be a verb of :data:`VERBS` instead of a super-task; ids are hex, and no verb is.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from threadbus.replay.bounds import Bound, parse_bound
from threadbus.replay.completion import Offer, complete_agents, complete_tasks, complete_threads
from threadbus.replay.errors import FilterValueError, FindingSettingError
from threadbus.replay.finding import FindingKind
from threadbus.replay.findings import JudgeSettings, load_settings
from threadbus.replay.findings.watch import FindingOptions
from threadbus.replay.grep import MAX_TEXT_CHARS
from threadbus.replay.lookup import find_task
from threadbus.replay.paint import MIN_WIDTH
from threadbus.replay.selection import MAX_KINDS, Selection
from threadbus.replay.show import Format, Request, show
from threadbus.replay.streams import let_go, open_missing
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    Place,
    PricesOption,
    Progress,
    RedactOption,
    TimeoutOption,
    UrlOption,
    make_app,
    open_source,
    prices_at,
    redact_key,
    run,
    stop,
)


class _Verb(NamedTuple):
    module: str
    """Its ``app`` runs the verb; imported when the verb is typed."""
    about: str
    """What it does, in one line."""


VERBS: Final = {
    "at": _Verb("threadbus.replay.verbs.at", "What stood at an entry: the plan, open work, votes."),
    "diff": _Verb(
        "threadbus.replay.verbs.diff", "Two runs, step by step, and where they first differ."
    ),
    "export": _Verb("threadbus.replay.exporting", "Write runs into a file, which --file reads."),
    "fork": _Verb("threadbus.replay.verbs.fork", "Go on from an entry of a run, in a new one."),
    "import": _Verb("threadbus.replay.verbs.importing", "Read the logs of other systems."),
    "verify": _Verb("threadbus.replay.verbs.verify", "Check a log: gaps, ids, senders, hashes."),
}
"""What may stand in place of a super-task."""

MAX_WIDTH: Final = 1_000

_EXIT_CODES: Final = {
    FindingKind.HINT: ExitCode.OK,
    FindingKind.SYMPTOM: ExitCode.SYMPTOM,
    FindingKind.VIOLATION: ExitCode.VIOLATION,
}
_OTHERS: Final = "Others"
_OPTION_GROUPS: Final = {
    "What is shown": "task output full follow at limit",
    "Only a part": "thread agent kind start end grep",
    "Faults, costs, secrets": ("no_findings finding findings_file judge exit_code prices redact"),
    "Where from": "file url creds nkey connect_timeout",
    _OTHERS: "otlp width no_color",
}
"""Heading in the help → parameters, in the order in which they are told."""
_COMPLETE: Final = "_BUSREPLAY_COMPLETE"

app = make_app(completes=True)


class _Command(TyperCommand):
    """The showing of a run, whose help has its many options in groups, and the verbs."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        left = {param.name: param for param in self.get_params(ctx)}
        for title, names in _OPTION_GROUPS.items():
            group = [left.pop(name) for name in names.split()]
            if title == _OTHERS:
                group += left.values()
            rows = [row for param in group if (row := param.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs, in place of TASK (`busreplay VERB --help`)"):
            formatter.write_dl([(name, verb.about) for name, verb in VERBS.items()])


def _complete_first(ctx: typer.Context, incomplete: str) -> Offer:
    verbs = [(name, verb.about) for name, verb in VERBS.items() if name.startswith(incomplete)]
    return [*verbs, *complete_tasks(ctx, incomplete)]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"busreplay {version('threadbus')}")
        raise typer.Exit


@app.command(cls=_Command)
def replay(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="Super-task id, or the start of it. Not needed where --file holds one run.",
            autocompletion=_complete_first,
        ),
    ] = "",
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORM",
            help=f"{', '.join(Format)}.",
        ),
    ] = Format.TREE,
    thread: Annotated[
        str,
        typer.Option(metavar="ID", help="One thread, by its id.", autocompletion=complete_threads),
    ] = "",
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What this agent did, and what was said to it.",
            autocompletion=complete_agents,
        ),
    ] = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Events of this type or family: message. Repeatable."),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="From a sequence, +1.5s, or a time in ISO 8601."
        ),
    ] = "",
    end: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="Up to there, written alike.")
    ] = "",
    grep: Annotated[
        str, typer.Option(metavar="TEXT", help="Events that say this, capitals aside.")
    ] = "",
    full: Annotated[
        bool, typer.Option("--full", help="Texts in full, not only their beginning.")
    ] = False,
    prices: PricesOption = None,
    no_findings: Annotated[
        bool, typer.Option("--no-findings", help="Do not look for faults in the run.")
    ] = False,
    finding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Set what a detector goes by: R1.times=3. Repeatable."
        ),
    ] = None,
    findings_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Such settings, as a table [findings] (TOML)."),
    ] = None,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Ask a model, too [env BUS_JUDGE_MODEL or BUS_MODEL]; costs tokens."
        ),
    ] = False,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="End with 10 for symptoms and 11 for violations."),
    ] = False,
    redact: RedactOption = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Use no colours.")] = False,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Columns, if not those of the terminal.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on live until the task is closed.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="N",
            help="What stood at an entry instead, by its sequence or event id.",
        ),
    ] = "",
    file: FileOption = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Read no more than N entries of the log.")
    ] = None,
    otlp: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Send the run to a collector (http://127.0.0.1:4318) instead.",
        ),
    ] = "",
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Say the version and stop."
        ),
    ] = False,
) -> None:
    """Show a past or running super-task from its log alone: who woke whom, what they did, how long
    it took, what it cost, and how it ended.

    Exit codes: 0 shown, 1 not readable, 2 wrong use, 3 no such task (or several), 4 no server,
    130 Ctrl-C; with --exit-code 10 symptoms, 11 violations.
    """
    if not task.strip() and file is None:
        stop("name a super-task: busreplay TASK (`bus tasks` lists them)", ExitCode.USAGE)
    if limit is not None and limit < 1:
        stop(f"--limit {limit}: at least 1 entry must be read", ExitCode.USAGE)
    if follow and file is not None:
        stop("--follow needs a server: a file does not grow", ExitCode.USAGE)
    if otlp:
        if follow:
            stop("a trace is not followed: `bus trace` exports live", ExitCode.USAGE)
        if at or limit or redact or any((thread, agent, kind, start, end, grep)):
            stop("a trace is whole, without filters, --at, --limit and --redact", ExitCode.USAGE)
    place = Place(file=file, url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout)
    if at:
        if output not in (Format.TREE, Format.JSON) or follow or thread or agent:
            stop("--at goes with --format tree or json and no filter", ExitCode.USAGE)
        # What it needs of the bus takes a while to import.
        from threadbus.replay.verbs.at import show_at

        run(show_at(place, task, at, as_json=output is Format.JSON))
        return
    if width is not None and not MIN_WIDTH <= width <= MAX_WIDTH:
        stop(f"--width {width}: from {MIN_WIDTH} to {MAX_WIDTH} columns", ExitCode.USAGE)
    selection = _selection(thread, agent, kind or [], start, end, grep)
    table = prices_at(prices)
    options = _findings(finding or [], findings_file, judge=judge, off=no_findings)
    gravest: FindingKind | None = None

    async def shown() -> None:
        nonlocal gravest
        async with open_source(place) as source:
            if otlp:
                from threadbus.replay.tracing.sending import send_run

                await send_run(source, await find_task(source, task), otlp, sys.stdout)
                return
            request = Request(
                task=await find_task(source, task),
                format=output,
                selection=selection,
                follow=follow,
                limit=limit,
                full=full,
                prices=table,
                findings=options,
                redact=redact,
                redact_key=redact_key(),
                width=width,
                has_color=not no_color,
            )
            with Progress(shown=not follow) as progress:
                gravest = await show(source, request, sys.stdout, sys.stdout.buffer, progress)

    run(shown(), needs_server=file is None)
    if exit_code and gravest is not None:
        raise typer.Exit(_EXIT_CODES[gravest])


def _selection(
    thread: str, agent: str, kinds: list[str], start: str, end: str, grep: str
) -> Selection:
    if len(kinds) > MAX_KINDS:
        stop(f"--kind was given {len(kinds):,} times; {MAX_KINDS} at most", ExitCode.USAGE)
    if len(grep) > MAX_TEXT_CHARS:
        stop(f"--grep: {len(grep):,} characters; {MAX_TEXT_CHARS:,} at most", ExitCode.USAGE)
    first, last = _bound(start, "--from"), _bound(end, "--to")
    if first is not None and last is not None and first.is_after(last):
        stop(f"--from {start} is later than --to {end}", ExitCode.USAGE)
    return Selection(thread, agent, tuple(kinds), first, last, grep)


def _bound(text: str, option: str) -> Bound | None:
    if not text:
        return None
    try:
        return parse_bound(text, option)
    except FilterValueError as error:
        stop(str(error), ExitCode.USAGE)


def _findings(
    overrides: list[str], file: Path | None, *, judge: bool, off: bool
) -> FindingOptions | None:
    if off:
        if overrides or file or judge:
            stop("--no-findings leaves nothing to set or to judge", ExitCode.USAGE)
        return None
    try:
        settings = load_settings(file, overrides)
        return FindingOptions(settings=settings, judge=JudgeSettings.from_env() if judge else None)
    except FindingSettingError as error:
        stop(str(error), ExitCode.USAGE)


def main() -> None:
    """Run the command; the console script ``busreplay``."""
    if _COMPLETE in os.environ:
        _complete()
        return
    open_missing()
    try:
        _run(sys.argv[1:])
    finally:
        let_go()


def _run(words: list[str]) -> None:
    if words and words[0] in VERBS:
        verb: typer.Typer = import_module(VERBS[words[0]].module).app
        verb(args=words[1:], prog_name=f"busreplay {words[0]}")
    else:
        app(prog_name="busreplay")


def _complete() -> None:
    """Complete for the shell, which says by variables what was typed; a verb has words of its own.

    The shells differ in which variables, and typer reads them; the verb itself is taken out.
    """
    for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"):
        typed = os.environ.get(name, "")
        command, _, rest = typed.lstrip().partition(" ")
        verb, gap, others = rest.lstrip().partition(" ")
        if "\n" in typed:
            # bash gives a word a line.
            command, _, rest = typed.partition("\n")
            verb, gap, others = rest.partition("\n")
        if verb not in VERBS or not gap:
            continue
        os.environ[name] = f"{command}{gap}{others}"
        if name == "COMP_WORDS":
            os.environ["COMP_CWORD"] = str(int(os.environ.get("COMP_CWORD", "1")) - 1)
        # Only an app that installs completion makes the shells known.
        get_command(app)
        verb_app: typer.Typer = import_module(VERBS[verb].module).app
        verb_app(prog_name="busreplay", complete_var=_COMPLETE)
        return
    app(prog_name="busreplay", complete_var=_COMPLETE)
