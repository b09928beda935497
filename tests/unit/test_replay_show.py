"""Every form of a run: with filters, redacted, and of a log that is broken."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

from tests.support.runs import revenue_run, troubled_run
from tests.support.story import TASK, Story
from threadbus.replay import (
    FileSource,
    Format,
    Redaction,
    Request,
    Selection,
    export_line,
    show,
)
from threadbus.schemas import Rejected, TaskId


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one run."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    path.write_bytes(b"".join([export_line(item) for item in revenue_run().log]))
    return path


@pytest.fixture(scope="module")
def broken_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with gaps, garbage, a forged sender, an entry of another task and one twice."""
    log = troubled_run().log
    lines = [export_line(item) for item in log]
    forged = lines[1].replace(b".obs.planner", b".obs.ghost").replace(b'"seq":6', b'"seq":600')
    other = Story(task=TaskId(TASK[:-1] + "3"))
    other.say("web", "elsewhere")
    report = Rejected(700, f"bus.{TASK}.main.msg.x", "not an event", 5, b"\xff\x00")
    path = tmp_path_factory.mktemp("broken") / "broken.jsonl"
    path.write_bytes(
        b"".join(
            [*lines[:4], b"\x00\xff garbage\n", b"{}\n", b"[]\n", *lines[6:], forged, lines[0]]
        )
        + export_line(other.log[0])
        + export_line(report)
        + b'{"export":7}\n{"export_end":{"entries":1}}\n{"seq":'
    )
    return path


async def written(path: Path, request: Request) -> tuple[str, bytes]:
    """Return what one form writes, as text and as bytes."""
    out, raw = io.StringIO(), io.BytesIO()
    await show(FileSource(path), request, out, raw, lambda _: None)
    return out.getvalue(), raw.getvalue()


@pytest.mark.parametrize("form", list(Format))
async def test_filters_hold_for_every_form(run_file: Path, form: Format) -> None:
    """What is not asked for is not there, whatever the form."""
    part = Selection(agent="coder", kinds=("vote",))
    whole = await written(run_file, Request(task=TASK, format=form))
    shown = await written(run_file, Request(task=TASK, format=form, selection=part))

    assert any(shown)
    assert shown != whole


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize(
    "request_",
    [
        Request(task=TASK),
        Request(task=TASK, redact=Redaction.NAMES),
        Request(task=TASK, selection=Selection(kinds=("message",))),
        Request(task=TASK, full=True, width=60),
    ],
)
async def test_a_broken_log_is_reported_and_never_fatal(
    broken_file: Path, form: Format, request_: Request
) -> None:
    """Garbage, gaps, a forged sender, lines cut off: every form shows what is left."""
    text, raw = await written(broken_file, msgspec.structs.replace(request_, format=form))

    assert text or raw
    if form in {Format.TREE, Format.TIMELINE}:
        assert "not readable, at " in text


@pytest.mark.parametrize("form", list(Format))
async def test_no_form_shows_what_was_redacted(run_file: Path, form: Format) -> None:
    """Neither texts nor names come through, whatever the form."""
    text, raw = await written(
        run_file, Request(task=TASK, format=form, redact=Redaction.NAMES, full=True)
    )
    everything = text.encode() + raw

    for word in (b"Which revenue", b"footnote", b"planner", b"report.docx"):
        assert word not in everything
