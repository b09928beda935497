"""``busreplay import``: files of other systems to an exported file, or to a server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.bus_env import events_of
from tests.support.busreplay import busreplay
from tests.support.nats_server import NatsServer
from threadbus.bus import connect, fold_task
from threadbus.replay import FileSource, find_task, fold
from threadbus.schemas import AgentCard, Recorded, parse_task_id

LINES = (
    {"agent": "Planner", "to": "Coder", "content": "Sum it.", "timestamp": 1_700_000_000},
    {"agent": "Coder", "tool": "sum", "args": {"a": 1}, "result": 3, "timestamp": 1_700_000_002},
    {"agent": "Coder", "to": "Planner", "text": "3", "timestamp": 1_700_000_005},
)


def log_file(folder: Path, name: str = "team.jsonl") -> Path:
    """Write the log of another system."""
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return path


async def test_an_imported_file_is_shown_as_any_other(tmp_path: Path) -> None:
    """Imported to a file, which every form of busreplay reads."""
    out = tmp_path / "run.jsonl"
    ran = busreplay("import", log_file(tmp_path), "-o", out)
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert b"imported 1 file: 1 run, 5 events" in ran.stderr

    tree = busreplay("--file", out)
    assert (tree.returncode, tree.stderr) == (0, b"")
    text = tree.stdout.decode()
    assert "imported from jsonl\n" in text
    assert "coder ← planner" in text
    assert "tool sum(a=1)" in text
    assert busreplay("verify", "--file", out).returncode == 0
    source = FileSource(out)
    task = await find_task(source, "")
    assert len([item async for item in source.read(task)]) == 5


def test_a_folder_is_imported_to_standard_output(tmp_path: Path) -> None:
    """Every file in it; what is none of them is reported, and what came before it is written."""
    folder = tmp_path / "logs"
    folder.mkdir()
    log_file(folder, "a.jsonl")
    (folder / "b.json").write_text("[]", encoding="utf-8")
    (folder / "notes.txt").write_text("no log", encoding="utf-8")
    ran = busreplay("import", folder)

    assert ran.returncode == 1
    assert ran.stdout.count(b"\n") == 5
    assert b"b.json" in ran.stderr
    assert busreplay("import", folder / "a.jsonl", "-o", "x", "--to-server").returncode == 2


async def test_a_run_on_a_server_wakes_nobody(nats_server: NatsServer, tmp_path: Path) -> None:
    """It is there with its own times and addressees, once; an agent of that name sleeps on."""
    url, path = nats_server.url, log_file(tmp_path)
    async with connect(url, name="coder") as coder:
        await coder.registry.register(AgentCard(name="coder"), holder="test", takeover=True)
        before = (await coder.pending_mentions()).get("coder", 0)
        ran = busreplay("import", path, "--to-server", "--url", url)
        assert ran.returncode == 0
        task = parse_task_id(ran.stderr.decode().split()[0])
        log = [e async for e in coder.read(task) if isinstance(e, Recorded)]
        assert (await coder.pending_mentions()).get("coder", 0) == before
        assert not any(event.mentions for event in await events_of(coder, task))
    timeline = fold(log)
    assert timeline.first_at == 1_700_000_000 * 10**9
    assert timeline.duration_ns == 5 * 10**9
    assert log[1].event.addressees == ("coder",)
    assert fold_task(task, log).ignored == 0
    assert busreplay("verify", task, "--url", url).returncode == 0
    again = busreplay("import", path, "--to-server", "--url", url)
    assert again.returncode == 1
    assert b"is on " in again.stderr
