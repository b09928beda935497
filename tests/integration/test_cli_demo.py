"""`bus demo`: from nothing to an answer about real files, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec
import pytest

from tests.support.cli import ended, environment, line_with, process
from tests.support.embedded_servers import is_gone
from tests.support.eventually import eventually
from tests.support.tree import ROOT
from threadbus.agents.cli.results import Demo
from threadbus.schemas import Event, ModelCalled, decode_event

AGENTS = ("planner", "document", "coder", "answer")


async def pids_of(demo: Process) -> list[int]:
    """Return the processes that the demo says its agents are."""
    line = await line_with(demo, "(processes)")
    found = {name: int(pid) for name, pid in re.findall(r"(\w+) (\d+)", line)}
    assert tuple(found) == AGENTS
    return list(found.values())


def read(file: str) -> bytes:
    """Return what is in a file."""
    return Path(file).read_bytes()


def exported(file: str) -> list[Event]:
    """Return the events of an exported log."""
    rows = [msgspec.json.decode(line) for line in read(file).splitlines()]
    return [decode_event(msgspec.json.encode(row["event"])) for row in rows]


async def all_gone(pids: list[int]) -> None:
    """Wait until no agent is left."""
    await eventually(lambda: all(map(is_gone, pids)), "the agents to be gone")


async def test_the_team_finds_the_number_that_is_wrong(tmp_path: Path) -> None:
    """The conversation is shown, the answer quotes both numbers, and it says how to go on.

    Also where a worker is killed in the middle of its turn: it is started again and goes on.
    """
    async with process("demo", env=environment(tmp_path), cwd=ROOT) as demo:
        pids = await pids_of(demo)
        await line_with(demo, "gives work → document")
        os.kill(pids[AGENTS.index("document")], signal.SIGKILL)
        ran = await ended(demo)
    await all_gone(pids)

    assert (ran.code, ran.err) == (0, "agent document was killed, and is started again\n")
    assert "is done → planner" in ran.out
    answer = ran.out.partition("The answer:\n")[2].splitlines()[0]
    assert "158,310" in answer
    assert "185,310" in answer
    assert "playbook answers, no model" in ran.out
    assert "bus up" in ran.out
    assert "\x1b" not in ran.out


async def test_the_exported_log_is_whole_and_replays(tmp_path: Path) -> None:
    """Every event is in the file, in order, and the printed command shows it."""
    async with process("demo", "--json", env=environment(tmp_path), cwd=ROOT) as demo:
        ran = await ended(demo)
    result = ran.json(Demo)
    events = exported(result.file)

    assert (ran.code, ran.err) == (0, "")
    assert result.playbook is True
    assert {event.task for event in events} == {result.task}
    assert events[0].type == "task.opened"
    assert {event.sender for event in events if event.type == "handling.ended"} == set(AGENTS)
    models = [event.data for event in events if isinstance(event.data, ModelCalled)]
    assert {call.system for call in models} == {"playbook"}
    words = shlex.split(result.replay)
    assert words[1:] == [result.task, "--file", result.file]


async def test_the_printed_replay_command_works(tmp_path: Path) -> None:
    """What is printed can be pasted, and the file is what busreplay itself would export."""
    async with process("demo", "--json", env=environment(tmp_path), cwd=ROOT) as demo:
        result = (await ended(demo)).json(Demo)
    shown = await shell(result.replay)
    exported_again = await shell(f"{result.replay} --format jsonl")

    assert b"185,310" in shown
    assert exported_again == read(result.file)


async def shell(line: str) -> bytes:
    """Run a line as a person pastes it; return what it printed."""
    running = await asyncio.create_subprocess_shell(line, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _ = await running.communicate()
    assert running.returncode == 0
    return out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demo_that_is_ended_leaves_no_process(tmp_path: Path, number: int) -> None:
    """Ctrl-C and SIGTERM end the agents and the server in order, and nobody else's Python."""
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=PIPE)
    async with process("demo", env=environment(tmp_path), cwd=ROOT) as demo:
        pids = await pids_of(demo)
        demo.send_signal(number)
        ran = await ended(demo)
    assert other.returncode is None
    await other.communicate(b"\n")
    assert other.returncode == 0

    assert ran.code == 130
    assert "Traceback" not in ran.err, ran.err
    for pid in pids:
        assert is_gone(pid)


async def test_agents_end_by_themselves_when_the_demo_is_killed(tmp_path: Path) -> None:
    """SIGKILL cannot be handled, and still nothing is left; the next demo works."""
    env = environment(tmp_path)
    async with process("demo", env=env, cwd=ROOT) as demo:
        pids = await pids_of(demo)
        demo.kill()
        await demo.wait()
        await all_gone(pids)
    async with process("demo", "--json", env=env, cwd=ROOT) as again:
        ran = await ended(again)

    assert ran.code == 0
    assert "185,310" in ran.json(Demo).answer


async def test_a_real_model_without_a_key_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    """The files are found from any folder, then the variable to set is named."""
    async with process(
        "demo", "--model", "some-model", env=environment(tmp_path), cwd=tmp_path
    ) as demo:
        ran = await ended(demo)

    assert ran.code == 2
    assert "OPENAI_API_KEY" in ran.err
