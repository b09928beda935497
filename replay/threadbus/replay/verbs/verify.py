"""``busreplay verify``: whether a log is what an honest one can be."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import msgspec
import typer

from threadbus.bus import Bus, BusSettings, StreamKind, connect
from threadbus.replay.export import FileSource
from threadbus.replay.paint import Painter, Span, painter_for
from threadbus.replay.point import whole
from threadbus.replay.source import BusSource, LogItem
from threadbus.replay.terminal import (
    CredsOption,
    ExitCode,
    FileOption,
    NkeyOption,
    TimeoutOption,
    UrlOption,
    make_app,
    run,
    stop,
)
from threadbus.replay.text import plural
from threadbus.replay.verifying import Problem, ProblemKind, Report, Verifier, check_artifacts
from threadbus.schemas import TaskId

MAX_SHOWN: Final = 200
"""Problems that are listed for a person; --json has more of them."""

app = make_app()


@app.command()
def verify(
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", help="The run; may be left out where --file holds one."),
    ] = "",
    artifacts: Annotated[
        bool,
        typer.Option("--artifacts/--no-artifacts", help="Fetch every artifact and check its hash."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    file: FileOption = None,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Check a log: its order, ids, subjects, who may speak where and when, clocks, forks, and the
    hashes of artifacts. Exits with 11 where something is a violation.
    """
    if not task.strip() and file is None:
        stop("name a super-task: busreplay verify TASK", ExitCode.USAGE)
    settings = None
    if file is None:
        settings = BusSettings.from_env(
            url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout
        )

    async def verified() -> None:
        if settings is None or file is not None:
            found, entries = await whole(FileSource(file or ""), task)
            verifier = _checked(entries)
            verifier.report.artifacts_unchecked += len(verifier.artifacts)
        else:
            async with connect(settings, ensure=False) as bus:
                found, entries = await whole(BusSource(bus), task)
                verifier = _checked(entries)
                if artifacts:
                    await check_artifacts(bus, verifier)
                else:
                    verifier.report.artifacts_unchecked += len(verifier.artifacts)
                await _check_stream(bus, verifier.report)
        _show(found, verifier.report, as_json=as_json, is_file=file is not None)
        if verifier.report.violations:
            raise typer.Exit(ExitCode.VIOLATION)

    run(verified())


def _checked(entries: list[LogItem]) -> Verifier:
    verifier = Verifier()
    for item in entries:
        verifier.take(item)
    verifier.finish()
    return verifier


async def _check_stream(bus: Bus, report: Report) -> None:
    """Look whether the stream itself has holes: nothing may ever be deleted from it."""
    for stream in (await bus.storage()).streams:
        if stream.kind is not StreamKind.LOG:
            continue
        taken = stream.last_seq - stream.start
        missing = taken - stream.messages
        if missing > 0:
            text = (
                f"{plural(missing, 'message')} of the {taken:,} that the stream {stream.name} has "
                "taken are gone; which run they were of, nobody can tell"
            )
            report.add(Problem(kind=ProblemKind.VIOLATION, check="sequence", text=text))
        for difference in stream.differences:
            text = f"the stream {stream.name} is not as it must be: {difference}"
            report.add(Problem(kind=ProblemKind.VIOLATION, check="stream", text=text))


def _show(task: TaskId, report: Report, *, as_json: bool, is_file: bool) -> None:
    if as_json:
        document = msgspec.json.format(msgspec.json.encode(report), indent=2)
        sys.stdout.buffer.write(document + b"\n")
        sys.stdout.buffer.flush()
        return
    painter = painter_for(sys.stdout)
    for problem in report.problems[:MAX_SHOWN]:
        _line(painter, problem)
    hidden = report.violations + report.notes - MAX_SHOWN
    if hidden > 0:
        painter.line([Span(f"and {hidden:,} more", "dim")])
    where = f"entries {report.first_seq:,} to {report.last_seq:,}"
    checked = [f"{plural(report.entries, 'entry').replace('entrys', 'entries')} ({where})"]
    if report.artifacts:
        checked.append(plural(report.artifacts, "artifact"))
    painter.line([Span(f"{task}: checked {' and '.join(checked)}", "dim")])
    if report.artifacts_unchecked:
        why = "a file has no contents" if is_file else "as asked, or too large"
        text = f"not checked: {plural(report.artifacts_unchecked, 'artifact')} ({why})"
        painter.line([Span(text, "warn")])
    style = "bad" if report.violations else "good"
    said = f"{plural(report.violations, 'violation')}, {plural(report.notes, 'note')}"
    painter.line([Span(said, style)])
    painter.flush()


def _line(painter: Painter, problem: Problem) -> None:
    style = "bad" if problem.kind is ProblemKind.VIOLATION else "warn"
    where = f"entry {problem.seq:,}: " if problem.seq else ""
    who = f"{problem.type} by {problem.sender} in {problem.thread}: " if problem.sender else ""
    shown = (
        f" [see {', '.join(f'{seq:,}' for seq in problem.evidence)}]" if problem.evidence else ""
    )
    text = painter.clean(f"{where}{who}{problem.text}{shown}")
    painter.line([Span(f"{problem.kind.value} ", style), Span(f"{problem.check}: "), Span(text)])
