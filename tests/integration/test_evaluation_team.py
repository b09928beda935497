"""`bus eval --team`: the team is started for it, and started again after a kill."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import ended, environment, process
from tests.support.eventually import eventually
from threadbus.agents.cli.results import Evaluated


def lines(path: Path) -> int:
    """Count the lines of a file of results; none where there is no file yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read(path: str) -> bytes:
    """Return what is in a file."""
    return Path(path).read_bytes()


async def test_a_team_is_started_asked_and_started_again_after_a_kill(tmp_path: Path) -> None:
    """What was being worked on is asked again; what the team asks is left to it."""
    questions = tmp_path / "models.jsonl"
    questions.write_text('{"id": "zoo", "question": "A library.", "answer": "no such text"}\n')
    results = tmp_path / "models.results.jsonl"
    env = environment(tmp_path)
    command = ("eval", str(questions), "--team", "york", "--json")
    async with process(*command, env=env, cwd=tmp_path) as running:
        await eventually(lambda: lines(results) == 2, "the question is opened", 60)
        running.kill()
        await running.wait()
    async with process(*command, env=env, cwd=tmp_path) as again:
        ran = await ended(again)
    assert ran.code == 0, ran.err
    said = ran.json(Evaluated)
    (row,) = json.loads(read(str(tmp_path / said.data)))["results"][0]["attempts"]

    assert (said.scored, said.without_answer, said.pass_at) == (1, 0, [0.0])
    assert "valid in form and meaning after attempt 3" in row["said"]
    assert row["model_calls"] >= 6
    assert row["input_tokens"] > 0
    assert "#1: wrong" in ran.err
