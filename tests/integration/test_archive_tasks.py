"""Old super-tasks go to files and out of the log; what lives is unhurt."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.support.bus_env import comes_to, receive, soon
from tests.support.busreplay import busreplay
from tests.support.cli import ended, environment, start
from tests.support.eventually import eventually
from threadbus.bus import Bus, StreamMismatchError, connect, retention, server
from threadbus.replay.archiving.writing import archive, plan_archive
from threadbus.replay.errors import ExportTargetError
from threadbus.schemas import MAIN_THREAD, AgentCard, TaskId, TaskStatus

_NOTHING = timedelta(0)
_SHORT = timedelta(milliseconds=200)


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    """A bus whose server knows repetitions for a moment only, so that a moment ago is old."""
    async with (
        server.EmbeddedServer() as running,
        connect(running.url, name="user") as made,
    ):
        for name in ("user", "web"):
            await made.registry.register(AgentCard(name=name), holder="test", takeover=True)
        await _config(made, duplicate_window=100_000_000)
        yield made


async def _config(bus: Bus, **changes: Any) -> dict[str, Any]:
    """Return the configuration of the log, changed past the bus."""
    client = Client()
    await client.connect(bus.settings.url)
    info = json.loads((await client.request("$JS.API.STREAM.INFO.BUS", b"")).data)
    config: dict[str, Any] = {**info["config"], **changes}
    if changes:
        answer = await client.request("$JS.API.STREAM.UPDATE.BUS", json.dumps(config).encode())
        assert "error" not in json.loads(answer.data)
    await client.close()
    return config


async def _ended(bus: Bus, question: str) -> TaskId:
    task = (await bus.tasks.open(question, to=[], participants=["web"])).event.task
    for number in range(3):
        await bus.send(task, MAIN_THREAD, f"{question} {number}")
    await bus.tasks.close(task, TaskStatus.COMPLETED, summary="done")
    return task


async def _pass(since: int) -> None:
    """Let a time be longer ago than the server knows repetitions."""
    await eventually(lambda: time.time_ns() - since > 400_000_000, "a moment is over")


async def _seqs(bus: Bus, task: TaskId) -> list[int]:
    return [entry.seq async for entry in bus.read(task)]


async def test_archived_tasks_are_replayed_from_the_file(bus: Bus, tmp_path: Path) -> None:
    """`busreplay --file` says what `busreplay` said; the log no longer has them."""
    old = [await _ended(bus, "Old one"), await _ended(bus, "Old two")]
    before = {task: await _replayed(task, "--url", bus.settings.url) for task in old}
    await _pass(time.time_ns())
    alive = (await bus.tasks.open("Alive", to=["web"])).event.task
    seqs = await _seqs(bus, alive)

    plan = await plan_archive(bus, _NOTHING)
    assert [task.task for task in plan.tasks] == old
    assert [holding.task for holding in plan.holding] == [alive]
    done = await archive(bus, plan, tmp_path / "archive", spare=_SHORT)

    assert (done.tasks, done.dropped) == (2, 10)
    (file,) = done.files
    for task in old:
        assert await _replayed(task, "--file", file) == before[task]
        assert await _seqs(bus, task) == []
    lines = (tmp_path / "archive" / "index.jsonl").read_bytes().splitlines()
    index = [json.loads(line) for line in lines]
    assert [(line["task"], line["file"]) for line in index] == [
        (task, Path(file).name) for task in old
    ]
    assert await _seqs(bus, alive) == seqs


async def test_what_lives_is_unhurt(bus: Bus, tmp_path: Path) -> None:
    """A super-task that has not ended keeps what came after it, and goes on to its answer."""
    first = await _ended(bus, "First")
    await _pass(time.time_ns())
    alive = (await bus.tasks.open("Alive", to=["web"])).event.task
    later = await _ended(bus, "Later")
    kept = await _seqs(bus, alive), await _seqs(bus, later)
    await _pass(time.time_ns())

    done = await archive(bus, await plan_archive(bus, _NOTHING), tmp_path, spare=_SHORT)

    assert done.tasks == 1
    assert await _seqs(bus, first) == []
    assert (await _seqs(bus, alive), await _seqs(bus, later)) == kept
    web = bus.acting_as("web")
    async with web.inbox() as inbox:
        (delivery,) = await receive(inbox, 1)
        await web.tasks.submit_answer(alive, "42", cause=delivery.event.id)
    assert (await soon(bus.waits.for_answer(alive))).text == "42"
    streams = {stream.name: stream for stream in (await bus.storage()).streams}
    assert streams["BUS"].messages == len(kept[0]) + len(kept[1]) + 2


async def test_a_mention_that_waits_keeps_its_task(bus: Bus, tmp_path: Path) -> None:
    """It has ended, but an agent that does not run has yet to take a mention of it."""
    task = (await bus.tasks.open("Nobody is there", to=["web"])).event.task
    await bus.tasks.close(task, TaskStatus.CANCELLED, summary="no answer")
    await _pass(time.time_ns())
    plan = await plan_archive(bus, _NOTHING)
    assert plan.tasks == ()
    assert [(one.task, one.reason) for one in plan.holding] == [(task, "a mention of it waits")]
    async with bus.acting_as("web").inbox() as inbox:
        await receive(inbox, 1)

    async def leaving() -> list[TaskId]:
        return [one.task for one in (await plan_archive(bus, _NOTHING)).tasks]

    await comes_to(leaving, [task])
    assert (await archive(bus, await plan_archive(bus, _NOTHING), tmp_path)).tasks == 1


async def test_the_age_does_not_stay(bus: Bus, tmp_path: Path) -> None:
    """Afterwards the log keeps everything again, also where the server refused the change."""
    await _ended(bus, "Old")
    await _pass(time.time_ns())
    await archive(bus, await plan_archive(bus, _NOTHING), tmp_path, spare=_SHORT)
    task = (await bus.tasks.open("New", to=[])).event.task
    with pytest.raises(StreamMismatchError, match="max age needs"):
        await retention.drop_before(bus.settings, time.time_ns(), spare=_NOTHING)
    assert (await _config(bus)).get("max_age", 0) == 0
    assert await _seqs(bus, task)


async def test_an_age_that_a_killed_archiving_left_is_taken_away(bus: Bus) -> None:
    """The next one finds its mark, and sets the age that the log had before."""
    marked = {"threadbus_max_age_before": "0"}
    await _config(bus, max_age=10**15, metadata=marked)
    assert await retention.drop_before(bus.settings, time.time_ns() - 10**15) == 0
    config = await _config(bus)
    assert config.get("max_age", 0) == 0
    assert "threadbus_max_age_before" not in config.get("metadata", {})


async def test_a_file_that_cannot_be_written_keeps_the_log(bus: Bus, tmp_path: Path) -> None:
    """Nothing leaves the log before all files are there."""
    task = await _ended(bus, "Old")
    await _pass(time.time_ns())
    (tmp_path / "file").write_text("x", encoding="utf-8")
    plan = await plan_archive(bus, _NOTHING)
    with pytest.raises(ExportTargetError):
        await archive(bus, plan, tmp_path / "file", spare=_SHORT)
    assert len(await _seqs(bus, task)) == 5


async def test_the_command_says_what_would_leave(bus: Bus, tmp_path: Path) -> None:
    """With --dry-run nothing is written; what is younger than --days stays."""
    task = await _ended(bus, "Young")
    env = environment(tmp_path, {"BUS_URL": bus.settings.url})
    folder = tmp_path / "archive"
    ran = await ended(await start("archive", str(folder), "--days", "1", "--dry-run", env=env))
    assert (ran.code, ran.out[:26]) == (0, "0 super-tasks would leave,"), ran.err
    assert not folder.exists()
    assert len(await _seqs(bus, task)) == 5
    wrong = await ended(await start("archive", str(folder), "--days", "0", env=env))
    assert (wrong.code, "0.01" in wrong.err) == (2, True)


async def _replayed(task: TaskId, option: str, where: str) -> list[bytes]:
    ran = await asyncio.to_thread(busreplay, task, option, where, "--format", "jsonl")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()
