"""Findings on the command line: where they are shown, how they are set, how the command ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tests.support.busreplay import busreplay
from tests.support.model_servers import playing
from tests.support.story import Story
from threadbus.replay import Timeline, export_line
from threadbus.replay.cli import app

RUNNER = CliRunner()
TWICE = "We should read the report first."


def faulty(*, violates: bool) -> Story:
    """Return a run with a symptom, or with a violation as well."""
    story = Story()
    asked = story.open("planner", "coder")
    story.say("planner", TWICE, cause=asked)
    story.say("planner", TWICE, cause=asked)
    if violates:
        story.say("ghost", "Boo.", cause=asked)
    story.say("coder", "So be it.", cause=asked)
    story.close("planner", story.answer("planner", "4", asked))
    return story


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Exported runs: one with a symptom, one with a violation."""
    folder = tmp_path_factory.mktemp("runs")
    found: dict[str, Path] = {}
    for name, violates in (("symptom", False), ("violation", True)):
        file = found[name] = folder / f"{name}.jsonl"
        file.write_bytes(b"".join([export_line(item) for item in faulty(violates=violates).log]))
    return found


def test_the_tree_marks_findings_and_lists_them(files: dict[str, Path]) -> None:
    """At their step, and below the tree with the suspected cause."""
    result = busreplay("--file", files["violation"])
    text = result.stdout.decode()

    assert (result.returncode, result.stderr) == (0, b"")
    assert text.count("! R1 exact repetition") == 1
    assert "Findings: 1 violation, 1 symptom" in text
    listed = text.partition("Findings: ")[2].splitlines()
    assert listed[1].startswith("  violation P3 role violation at 12")
    assert "Suspected cause" in text
    assert "because P3 is about it: ghost speaks in thread main" in text


def test_the_document_holds_findings_and_suspects(files: dict[str, Path]) -> None:
    """One agent's part holds what was found of that agent."""
    result = busreplay("--file", files["violation"], "--format", "json")
    whole = msgspec.json.decode(result.stdout, type=Timeline)
    result = busreplay("--file", files["violation"], "--format", "json", "--agent", "planner")
    part = msgspec.json.decode(result.stdout, type=Timeline)

    assert [one.detector for one in whole.findings] == ["R1", "P3"]
    assert whole.suspects[0].agent == "ghost"
    assert [one.detector for one in part.findings] == ["R1"]


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("symptom", [], 0),
        ("symptom", ["--exit-code"], 10),
        ("violation", ["--exit-code"], 11),
        ("violation", ["--exit-code", "--finding", "off=P3"], 10),
        ("violation", ["--exit-code", "--no-findings"], 0),
    ],
)
def test_the_exit_code_tells_the_gravest_finding(
    files: dict[str, Path], name: str, options: list[str], code: int
) -> None:
    """Only where it is asked for."""
    result = RUNNER.invoke(app, ["--file", str(files[name]), *options])

    assert (result.exit_code, result.stderr) == (code, "")
    assert ("! R1" in result.stdout) is ("--no-findings" not in options)


def test_settings_come_from_a_file_and_from_options(files: dict[str, Path], tmp_path: Path) -> None:
    """What cannot be used is wrong use, and the message says what there is."""
    file = tmp_path / "findings.toml"
    file.write_text("[findings.R1]\ntimes = 3\n", encoding="utf-8")
    given = ["--file", str(files["symptom"])]
    quiet = RUNNER.invoke(app, [*given, "--findings-file", str(file)])
    loud = RUNNER.invoke(app, [*given, "--findings-file", str(file), "--finding", "R1.times=2"])
    wrong = RUNNER.invoke(app, [*given, "--finding", "R1.tims=3"])
    both = RUNNER.invoke(app, [*given, "--no-findings", "--finding", "R1.times=3"])

    assert "! R1" not in quiet.stdout
    assert "! R1" in loud.stdout
    assert (wrong.exit_code, "times, min_chars" in wrong.stderr) == (2, True)
    assert (both.exit_code, "nothing to set" in both.stderr) == (2, True)


async def test_a_judge_is_asked_only_where_it_is_asked_for(files: dict[str, Path]) -> None:
    """Its opinion stands with the findings, and what it took below them."""
    opinion = {"seq": 6, "fault": "wrong_plan", "reason": "It reads nothing.", "confidence": 0.6}
    play = f"[[play]]\ntext = {json.dumps(json.dumps({'findings': [opinion]}))}\n"
    async with playing(play) as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "BUS_JUDGE_MODEL": "playbook"}
        judged = await asyncio.to_thread(
            busreplay, "--file", files["symptom"], "--judge", **variables
        )
        plain = await asyncio.to_thread(busreplay, "--file", files["symptom"], **variables)
    unnamed = busreplay("--file", files["symptom"], "--judge", BUS_MODEL="", BUS_JUDGE_MODEL="")
    text = judged.stdout.decode()

    assert "hint J judged: wrong plan at 6" in text
    assert "It reads nothing. (says a model; 60% sure)" in text
    assert "judged by playbook in" in text
    assert b"judged" not in plain.stdout
    assert (unnamed.returncode, b"BUS_JUDGE_MODEL" in unnamed.stderr) == (2, True)
