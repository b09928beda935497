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
from threadbus.bus import (
    Bus,
    BusSettings,
    ReadError,
    StreamMismatchError,
    connect,
    retention,
    server,
)
from threadbus.replay.archiving.writing import archive, plan_archive
from threadbus.replay.errors import ExportTargetError
from threadbus.schemas import MAIN_THREAD, AgentCard, TaskId, TaskStatus, partition_of

_NOTHING = timedelta(0)
_SHORT = timedelta(milliseconds=200)
_PARTITIONS = 3


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


@pytest.fixture
async def spread() -> AsyncIterator[Bus]:
    """The same with a log of three streams, and inboxes of two."""
    async with server.EmbeddedServer() as running:
        settings = BusSettings(url=running.url, partitions=_PARTITIONS, inboxes=2)
        async with connect(settings, name="user") as made:
            for name in ("user", "web"):
                await made.registry.register(AgentCard(name=name), holder="test", takeover=True)
            for number in range(_PARTITIONS):
                await _config(made, f"BUS-{number}", duplicate_window=100_000_000)
            yield made


async def _config(bus: Bus, stream: str = "BUS", **changes: Any) -> dict[str, Any]:
    """Return the configuration of the log, changed past the bus."""
    client = Client()
    await client.connect(bus.settings.url)
    info = json.loads((await client.request(f"$JS.API.STREAM.INFO.{stream}", b"")).data)
    config: dict[str, Any] = {**info["config"], **changes}
    if changes:
        body = json.dumps(config).encode()
        answer = await client.request(f"$JS.API.STREAM.UPDATE.{stream}", body)
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
    assert _mode(tmp_path / "archive") == 0o700
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


async def test_a_log_of_several_streams_is_cut_at_one_time(spread: Bus, tmp_path: Path) -> None:
    """Each partition is, what lives keeps all it has wherever it is, and goes on to its answer."""
    bus = spread
    old: list[TaskId] = []
    while {partition_of(task, _PARTITIONS) for task in old} != set(range(_PARTITIONS)):
        old.append(await _ended(bus, f"Old {len(old)}"))
    before = {task: await _replayed(task, "--url", bus.settings.url) for task in old[:3]}
    await _pass(time.time_ns())
    alive = (await bus.tasks.open("Alive", to=["web"])).event.task
    later = [await _ended(bus, f"Later {number}") for number in range(6)]
    kept = {task: await _seqs(bus, task) for task in (alive, *later)}
    await _pass(time.time_ns())

    plan = await plan_archive(bus, _NOTHING)
    assert [task.task for task in plan.tasks] == old
    assert [(one.task, one.reason) for one in plan.holding] == [(alive, "it has not ended")]
    done = await archive(bus, plan, tmp_path, spare=_SHORT)

    assert (done.tasks, done.dropped) == (len(old), 5 * len(old))
    (file,) = done.files
    for task, shown in before.items():
        assert await _replayed(task, "--file", file) == shown
    assert [await _seqs(bus, task) for task in old] == [[] for _ in old]
    assert {task: await _seqs(bus, task) for task in kept} == kept
    listed = {summary.task for summary in await bus.tasks.list()}
    assert listed == {alive, *later}
    web = bus.acting_as("web")
    async with web.inbox() as inbox:
        (delivery,) = await receive(inbox, 1)
        await web.tasks.submit_answer(alive, "42", cause=delivery.event.id)
    assert (await soon(bus.waits.for_answer(alive))).text == "42"
    for number in range(_PARTITIONS):
        assert (await _config(bus, f"BUS-{number}")).get("max_age", 0) == 0


async def test_one_that_was_killed_before_the_cut_is_made_again(bus: Bus, tmp_path: Path) -> None:
    """Its files are there, up to the same time: the next one writes others beside them."""
    old = await _ended(bus, "Old")
    await _pass(time.time_ns())
    await bus.tasks.open("Alive", to=["web"])
    plan = await plan_archive(bus, _NOTHING)
    left = tmp_path / "killed"
    (first,) = (await archive(bus, plan, left, spare=timedelta(days=1))).files
    assert await _seqs(bus, old), "nothing has left"

    done = await archive(bus, await plan_archive(bus, _NOTHING), left, spare=_SHORT)
    (second,) = done.files
    assert await _replayed(old, "--file", second) == await _replayed(old, "--file", first)
    assert await _seqs(bus, old) == []


async def test_inboxes_that_are_behind_keep_the_log(bus: Bus, tmp_path: Path) -> None:
    """A mention that has yet to come into an inbox would never come."""
    task = (await bus.tasks.open("Asks", to=["web"])).event.task
    await bus.tasks.close(task, TaskStatus.CANCELLED, summary="no answer")
    await _pass(time.time_ns())
    await _config(bus, "MENTIONS", max_msgs=1, discard="new")
    for number in range(3):
        more = (await bus.tasks.open(f"More {number}", to=["web"])).event.task
        await bus.tasks.close(more, TaskStatus.CANCELLED, summary="no answer")

    async def refused() -> bool:
        try:
            await plan_archive(bus, _NOTHING)
        except ReadError as error:
            return "MENTIONS" in str(error) and "behind BUS" in str(error)
        return False

    await eventually(refused, "it says who is behind")


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


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
