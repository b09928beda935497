"""`busreplay export`: a whole file or none, which is read back without a server."""

from __future__ import annotations

import gzip
import os
import signal
from pathlib import Path

import pytest

from tests.support.busreplay import DEADLINE_S, busreplay, start_busreplay
from tests.support.nats_server import NatsServer, running_nats_server
from tests.support.runs import revenue_run
from tests.support.story import TASK, Story
from threadbus.bus import connect
from threadbus.replay import export_line
from threadbus.schemas import AgentCard, TaskId, TaskOpened

OTHER = TaskId(TASK[:-1] + "2")


@pytest.fixture(scope="module")
def runs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two runs, as --format jsonl writes them."""
    other = Story(task=OTHER)
    other.add("user", TaskOpened(title="The other one"), mentions=("planner",))
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    path.write_bytes(b"".join([export_line(item) for item in (*revenue_run().log, *other.log)]))
    return path


def test_an_export_is_the_log_between_two_lines(runs_file: Path, tmp_path: Path) -> None:
    """Compressed where its name says so; the same log gives the same bytes, and is shown alike."""
    plain, packed, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz", tmp_path / "c.jsonl.gz"
    for target in (plain, packed, again):
        result = busreplay("export", TASK, "--file", runs_file, "-o", target)
        assert result.returncode == 0, result.stderr
        assert b"41 entries of 1 super-task" in result.stdout or b"entries of 1" in result.stdout

    lines = plain.read_bytes().splitlines(keepends=True)
    assert lines[0].startswith(b'{"export":{"format":"threadbus.export/1"')
    assert b"".join(lines[1:-1]) == b"".join([export_line(i) for i in revenue_run().log])
    assert lines[-1] == b'{"export_end":{"entries":%d}}\n' % (len(lines) - 2)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    shown = busreplay("--file", packed)
    assert shown.stdout == busreplay(TASK, "--file", runs_file).stdout
    assert busreplay("--file", plain, "--format", "jsonl").stdout == b"".join(lines[1:-1])


def test_several_tasks_go_into_one_file(runs_file: Path, tmp_path: Path) -> None:
    """Each can be shown from it, and exported again from it."""
    target = tmp_path / "both.jsonl"
    busreplay("export", OTHER, TASK, "--file", runs_file, "-o", target)

    assert busreplay(OTHER, "--file", target).stdout.startswith(b"The other one\n")
    assert busreplay(TASK, "--file", target).returncode == 0
    one = busreplay("export", TASK, "--file", target, "-o", "-").stdout
    assert one == busreplay("export", TASK, "--file", runs_file, "-o", "-").stdout


def test_a_file_that_is_there_is_not_touched(runs_file: Path, tmp_path: Path) -> None:
    """Unless that is asked for; what cannot be exported leaves nothing behind."""
    target = tmp_path / "run.jsonl"
    target.write_text("mine", encoding="utf-8")
    refused = busreplay("export", TASK, "--file", runs_file, "-o", target)
    assert refused.returncode == 1
    assert b"--force" in refused.stderr
    assert target.read_text(encoding="utf-8") == "mine"

    unknown = busreplay("export", "f" * 32, "--file", runs_file, "-o", tmp_path / "none.jsonl")
    assert unknown.returncode == 3
    nowhere = busreplay("export", TASK, "--file", runs_file, "-o", tmp_path / "no" / "run.jsonl")
    assert nowhere.returncode == 1
    assert b"cannot export to" in nowhere.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]

    assert busreplay("export", TASK, "--file", runs_file, "-o", target, "--force").returncode == 0
    assert busreplay("--file", target).returncode == 0


def test_an_interrupted_export_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C in the middle: no file under its name, nor any other."""
    pipe, out = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    out.mkdir()
    lines = [export_line(item) for item in revenue_run().log]
    process = start_busreplay("export", TASK, "--file", pipe, "-o", out / "run.jsonl")
    with process, pipe.open("wb") as writer:
        writer.writelines(lines)
        writer.flush()
        process.send_signal(signal.SIGINT)
        writer.close()
        code = process.wait(DEADLINE_S)

    # It may have been done before the signal came.
    assert code in {130, 0, -signal.SIGINT}
    assert [path.name for path in out.iterdir()] in ([], ["run.jsonl"])


def test_a_redacted_export_says_so_and_loads(runs_file: Path, tmp_path: Path) -> None:
    """Text is gone, the tree says that it is, and a file that was redacted stays marked."""
    target = tmp_path / "run.jsonl"
    busreplay("export", TASK, "--file", runs_file, "-o", target, "--redact", "texts")
    content = target.read_bytes()
    shown = busreplay("--file", target).stdout.decode()

    assert b'"redacted":"texts"' in content.splitlines()[0]
    assert b"revenue" not in content.lower()
    assert "redacted (texts): this is not all that was said" in shown
    assert b'"redacted": "texts"' in busreplay("--file", target, "--format", "json").stdout
    again = busreplay("--file", target, "--format", "jsonl").stdout
    assert again == content
    stronger = busreplay("export", TASK, "--file", target, "-o", "-", "--redact", "secrets").stdout
    assert b'"redacted":"texts"' in stronger.splitlines()[0]


def test_the_key_changes_the_placeholders(runs_file: Path) -> None:
    """Nobody without it can check a guess against them."""
    arguments = ("export", TASK, "--file", runs_file, "-o", "-", "--redact", "texts")
    plain, keyed = busreplay(*arguments), busreplay(*arguments, BUS_REDACT_KEY="mine")

    assert plain.returncode == keyed.returncode == 0
    assert plain.stdout != keyed.stdout
    assert keyed.stdout == busreplay(*arguments, BUS_REDACT_KEY="mine").stdout


def test_a_file_that_lost_its_end_is_reported(runs_file: Path, tmp_path: Path) -> None:
    """So is one that lost a line in the middle; both are shown as far as they go."""
    whole = busreplay("export", TASK, "--file", runs_file, "-o", "-").stdout
    lines = whole.splitlines(keepends=True)
    cut, holed = tmp_path / "cut.jsonl", tmp_path / "holed.jsonl"
    cut.write_bytes(b"".join(lines[:-1]))
    holed.write_bytes(b"".join(lines[:10] + lines[11:]))

    assert b"the file breaks off after" in busreplay("--file", cut).stdout
    assert b"entries were exported, and" in busreplay("--file", holed).stdout


async def test_a_run_on_a_server_is_exported(nats_server: NatsServer, tmp_path: Path) -> None:
    """The file alone shows what the server would."""
    async with connect(nats_server.url, name="user") as bus:
        if await bus.registry.get("planner") is None:
            await bus.registry.register(AgentCard(name="planner"), holder="test")
        task = (await bus.tasks.open("What is it?", to=["planner"], title="Kept")).event.task
        await bus.acting_as("planner").tasks.submit_answer(task, "It is this.")
    target = tmp_path / "run.jsonl.gz"
    result = busreplay("export", task[:30], "--url", nats_server.url, "-o", target)

    assert result.returncode == 0, result.stderr
    assert busreplay("--file", target).stdout == busreplay(task, BUS_URL=nats_server.url).stdout


def test_reading_makes_no_streams(tmp_path: Path) -> None:
    """A server that never had a run is told apart from one that does not answer."""
    with running_nats_server(tmp_path) as server:
        for arguments in ((TASK,), ("abc",), ("export", TASK), (TASK, "--follow")):
            result = busreplay(*arguments, "--url", server.url)
            assert result.returncode == 4
            assert b"has no log of threadbus (no stream BUS)" in result.stderr
        assert not list((tmp_path / "jetstream").rglob("*.blk"))
