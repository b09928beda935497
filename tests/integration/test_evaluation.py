"""`bus eval` on a running bus: twenty questions, three attempts at each, also after a kill."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_process import agent_process
from tests.support.cli import Cli, ended, process
from tests.support.eventually import eventually
from tests.support.tree import ROOT
from threadbus.agents.cli.results import Evaluated
from threadbus.agents.evaluation.report import Report
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.bus import connect

EXAMPLE = ROOT / "examples" / "evaluation"
QUESTIONS = str(EXAMPLE / "questions.jsonl")
SECOND_TIME = {"q05", "q10", "q16"}
"""Answered wrongly at the first attempt."""
NEVER = {"q12", "q14"}


@pytest.fixture
async def answerer(bus_url: str) -> AsyncGenerator[None]:
    """The agent of the example, as a process, with a playbook that begins anew."""
    async with PlaybookServer(EXAMPLE / "playbook.toml") as playbook:
        environ = {
            "BUS_URL": bus_url,
            "BUS_MODEL": PLAYBOOK,
            "OPENAI_BASE_URL": playbook.base_url,
            "OPENAI_API_KEY": "none",
        }
        async with agent_process(f"{EXAMPLE / 'answerer.py'}:agent", environ, "--takeover"):
            yield


def read(path: str) -> bytes:
    """Return what is in a file."""
    return Path(path).read_bytes()


def rows(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a file of results of one kind; none where there is no file yet."""
    if not path.exists():
        return []
    lines = [line for line in path.read_bytes().split(b"\n") if line.endswith(b"}")]
    return [row for row in map(json.loads, lines) if row["type"] == kind]


@pytest.mark.usefixtures("answerer")
async def test_twenty_questions_are_scored_and_reported(cli: Cli, tmp_path: Path) -> None:
    """Right at once, right at the second attempt, never right, and one of unknown answer."""
    results = tmp_path / "r.results.jsonl"
    ran = await cli(
        *("eval", QUESTIONS, "--to", "answerer", "--k", "3", "--parallel", "4", "--json"),
        *("--results", str(results), "--input-price", "1", "--output-price", "10"),
    )
    assert ran.code == 0, ran.err
    said = ran.json(Evaluated)
    report = json.loads(read(said.data))
    of = {row["id"]: [one["right"] for one in row["attempts"]] for row in report["results"]}

    assert (said.questions, said.scored, said.ended, said.without_answer) == (20, 19, 60, 0)
    assert said.pass_at == pytest.approx([(14 + 3 * 2 / 3) / 19, 17 / 19, 17 / 19])
    assert {name for name, right in of.items() if right.count(True) == 2} == SECOND_TIME
    assert {name for name, right in of.items() if True not in right} == {*NEVER, "q20"}
    assert of["q20"] == [None, None, None]
    assert [group["level"] for group in report["levels"]] == ["1", "2", "3"]
    assert said.input_tokens > 0
    assert said.cost == pytest.approx((said.input_tokens + 10 * said.output_tokens) / 1e6)
    assert "| all | 19 |" in read(said.report).decode()
    assert set(report) == set(Report.__struct_fields__)
    tasks = {one["task"] for row in report["results"] for one in row["attempts"]}
    async with connect(cli.url) as bus:
        listed = {summary.task for summary in await bus.tasks.list(limit=1000)}
    assert len(tasks) == 60
    assert tasks <= listed


@pytest.mark.usefixtures("answerer")
async def test_a_run_that_is_killed_goes_on_and_asks_nothing_twice(
    cli: Cli, tmp_path: Path
) -> None:
    """SIGKILL in the middle; the second run finds what ended, and what was only opened."""
    results = tmp_path / "k.results.jsonl"
    command = ("eval", QUESTIONS, "--to", "answerer", "--parallel", "3", "--results", str(results))
    async with connect(cli.url) as bus:
        before = {summary.task for summary in await bus.tasks.list(limit=1000)}
        async with process(*command, env=cli.env) as running:
            await eventually(lambda: len(rows(results, "ended")) >= 5, "five results")
            running.kill()
            await running.wait()
        first = rows(results, "ended")
        ran = await cli(*command, "--json")
        asked = {summary.task for summary in await bus.tasks.list(limit=1000)} - before
    assert ran.code == 0, ran.err
    everything = rows(results, "ended")

    assert len(first) < 20
    assert everything[: len(first)] == first
    assert sorted(row["question"] for row in everything) == [f"q{n:02}" for n in range(1, 21)]
    assert {row["task"] for row in everything} == asked
    async with process(*command, env=cli.env) as again:
        last = await ended(again)
    assert "0 of 20 attempts to make" in last.err
    assert len(rows(results, "ended")) == 20


async def test_an_attempt_without_an_answer_in_time_is_cancelled(cli: Cli, tmp_path: Path) -> None:
    """It counts as wrong, and its super-task does not go on."""
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "Anybody?", "answer": "no"}\n')
    assert (await cli("register", "nobody")).code == 0
    ran = await cli(
        *("eval", str(questions), "--to", "nobody", "--timeout", "0.5", "--json"),
        *("--results", str(tmp_path / "t.results.jsonl")),
    )
    assert "not living now, questions wait: nobody" in ran.err
    said = ran.json(Evaluated)
    (row,) = json.loads(read(said.data))["results"][0]["attempts"]
    async with connect(cli.url) as bus:
        state = await bus.tasks.state(row["task"])

    assert (said.scored, said.without_answer, said.pass_at) == (1, 1, [0.0])
    assert (row["status"], row["right"], row["why"]) == ("timeout", False, "no answer within 0.5 s")
    assert state.status.value == "cancelled"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((QUESTIONS,), 2, "give either --team NAME or --to AGENT"),
        ((QUESTIONS, "--team", "yorck"), 2, "did you mean york?"),
        ((QUESTIONS, "--to", "a", "--team", "york"), 2, "give either"),
        ((QUESTIONS, "--to", "a", "--model", "m"), 2, "it goes with --team"),
        ((QUESTIONS, "--to", "a", "--k", "0"), 2, "--k '0': a number from 1 to 100"),
        ((QUESTIONS, "--to", "a", "--parallel", "65"), 2, "a number from 1 to 64"),
        ((QUESTIONS, "--to", "a", "--input-price", "1"), 2, "give both prices, or none"),
        (("none.jsonl", "--to", "a"), 2, "none.jsonl: No such file"),
        ((QUESTIONS, "--to", "answrr"), 3, "answrr"),
    ],
)
async def test_what_cannot_be_run_is_told(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """One line, with the flag or the file, before anything is started."""
    async with process("eval", *arguments, env=cli.env, cwd=tmp_path) as running:
        ran = await ended(running)

    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err
    assert "Traceback" not in ran.err
