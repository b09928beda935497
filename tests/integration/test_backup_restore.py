"""Backups of a living server, and what a restored one is like."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.support.access import secured
from tests.support.bus_env import DEADLINE_S, comes_to, receive, soon
from tests.support.busreplay import busreplay
from tests.support.cli import NOWHERE, ended, environment, start
from tests.support.eventually import eventually
from tests.support.running_agents import running as running_agent
from threadbus.agents import Agent, Mention
from threadbus.bus import (
    Bus,
    BusSettings,
    PermissionDeniedError,
    backup,
    backup_errors,
    connect,
    server,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AnswerSubmitted,
    FilePart,
    Recorded,
    ReferencePart,
    TaskId,
    text_of,
)

_BIG = os.urandom(1_500_000)


async def _filled(bus: Bus) -> list[TaskId]:
    """Register two agents, and ask one of them five times; an artifact goes with the first."""
    for name in ("user", "web"):
        await bus.registry.register(AgentCard(name=name), holder="test", takeover=True)
    tasks: list[TaskId] = []
    for number in range(5):
        opened = await bus.tasks.open(f"Question {number}?", to=["web"])
        tasks.append(opened.event.task)
    await bus.send(tasks[0], MAIN_THREAD, [FilePart(_BIG, "big.bin")])
    return tasks


async def _waiting(bus: Bus) -> int:
    """Return how many mentions wait."""
    streams = [s for s in (await bus.storage()).streams if s.name.startswith("MENTIONS")]
    # Where there are several, the first fills the others and keeps what it had for a while.
    return sum(stream.messages for stream in streams[1 if len(streams) > 1 else 0 :])


async def _contents(bus: Bus, task: TaskId) -> list[tuple[int, int, bytes]]:
    entries = [entry async for entry in bus.read(task)]
    assert all(isinstance(entry, Recorded) for entry in entries)
    return [(e.seq, e.stored_at, e.body) for e in entries if isinstance(e, Recorded)]


async def test_a_restored_server_tells_the_same_byte_for_byte(tmp_path: Path) -> None:
    """Sequences, times, bytes, artifacts and cards are the same, and it goes on from there."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        tasks = await _filled(bus)
        before = {task: await _contents(bus, task) for task in tasks}
        manifest = await backup.backup(BusSettings(url=old.url), folder)
    assert {stream.name for stream in manifest.streams} == {
        *("MENTIONS", "BUS", "KV_AGENTS", "OBJ_ARTIFACTS")
    }
    assert backup.check(folder) == manifest

    async with server.EmbeddedServer() as new:
        assert await backup.restore(BusSettings(url=new.url), folder) == manifest
        async with connect(new.url, name="user") as bus:
            assert {task: await _contents(bus, task) for task in tasks} == before
            assert [agent.name for agent in await bus.registry.agents()] == ["user", "web"]
            parts = [
                part
                async for entry in bus.read(tasks[0])
                if isinstance(entry, Recorded)
                for part in getattr(entry.event.data, "parts", ())
            ]
            (reference,) = [part for part in parts if isinstance(part, ReferencePart)]
            assert await bus.artifacts.get(reference) == _BIG
            last = max(seq for entries in before.values() for seq, _, _ in entries)
            sent = await bus.send(tasks[1], MAIN_THREAD, "And on.")
            assert sent.seq > last
            assert all(not stream.differences for stream in (await bus.storage()).streams)


async def test_only_what_nobody_had_taken_is_delivered(tmp_path: Path) -> None:
    """Mentions that wait come once; those that were acknowledged, and new ones, are told apart."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        tasks = await _filled(bus)
        async with connect(old.url, name="web") as web, web.inbox() as inbox:
            await receive(inbox, 3)

        await comes_to(lambda: _waiting(bus), 2)
        await backup.backup(BusSettings(url=old.url), folder, overlap=timedelta(0))

    async with server.EmbeddedServer() as new:
        await backup.restore(BusSettings(url=new.url), folder)
        async with connect(new.url, name="user") as bus:
            after = (await bus.tasks.open("One more?", to=["web"])).event.task
            async with connect(new.url, name="web") as web, web.inbox() as inbox:
                found = await receive(inbox, 3)
            assert [delivery.event.task for delivery in found] == [*tasks[3:], after]
            await comes_to(lambda: _waiting(bus), 0)


async def test_what_is_delivered_twice_is_answered_once(tmp_path: Path) -> None:
    """The last minute comes again; an agent finds its own answers in the restored log."""
    folder = tmp_path / "saved"
    calls: list[str] = []
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        calls.append(mention.text)
        return "42"

    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        await bus.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        async with running_agent(agent, bus):
            assert (await soon(bus.ask("Before?", to=["web"]))).text == "42"
        waiting = (await bus.tasks.open("Waiting?", to=["web"])).event.task
        await backup.backup(BusSettings(url=old.url), folder)
    assert calls == ["Before?"]

    async with server.EmbeddedServer() as new:
        await backup.restore(BusSettings(url=new.url), folder)
        async with connect(new.url, name="user") as bus, running_agent(agent, bus):
            assert (await soon(bus.waits.for_answer(waiting))).text == "42"
            await comes_to(lambda: _waiting(bus), 0)
    assert calls == ["Before?", "Waiting?"]


async def test_a_backup_is_taken_while_agents_speak(tmp_path: Path) -> None:
    """Whatever is in it is whole: each mention is waiting in it, or its answer is in its log."""
    folder = tmp_path / "saved"
    agent = Agent("web")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return f"{mention.text}!"

    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        await bus.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        async with running_agent(agent, bus):
            stop = asyncio.Event()
            asked: list[TaskId] = []

            async def ask() -> None:
                while not stop.is_set():
                    asked.append((await bus.tasks.open("What", to=["web"])).event.task)
                    await bus.waits.for_answer(asked[-1])

            async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
                group.create_task(ask())
                group.create_task(ask())
                await eventually(lambda: len(asked) > 20, "questions are asked")
                manifest = await backup.backup(BusSettings(url=old.url), folder)
                stop.set()

    kept = next(stream for stream in manifest.streams if stream.name == "BUS").last_seq
    async with server.EmbeddedServer() as new:
        await backup.restore(BusSettings(url=new.url), folder)
        async with connect(new.url, name="user") as bus, running_agent(agent, bus):
            answered = 0
            for task in asked:
                entries = [entry async for entry in bus.read(task)]
                if entries:
                    answered += 1
                    assert (await soon(bus.waits.for_answer(task))).text == "What!"
                    texts = [
                        text_of(entry.event.data.parts)
                        async for entry in bus.read(task)
                        if isinstance(entry, Recorded)
                        and isinstance(entry.event.data, AnswerSubmitted)
                    ]
                    assert texts == ["What!"]
            assert answered >= 20
            assert kept > 0


@pytest.mark.parametrize("apart", [False, True])
async def test_only_the_operator_takes_backups(tmp_path: Path, apart: bool) -> None:
    """Also with streams apart: an agent's key is refused, the operator's works."""
    folder = tmp_path / "saved"
    async with secured(tmp_path / "old", "web", apart=apart) as old:
        task = await old.task("web")
        with pytest.raises(PermissionDeniedError):
            await backup.backup(old.settings("web"), tmp_path / "stolen")
        async with old.bus("web") as web:
            before = await _contents(web, task)
            # More than the server sends without an acknowledgement.
            reference = await web.artifacts.put(os.urandom(6_000_000))
        await backup.backup(old.settings("operator"), folder)
    async with secured(tmp_path / "new", "web", apart=apart) as new:
        with pytest.raises(PermissionDeniedError):
            await backup.restore(new.settings("web"), folder)
        await backup.restore(new.settings("operator"), folder)
        async with new.bus("web") as web, web.inbox() as inbox:
            assert await _contents(web, task) == before
            assert [d.event.task for d in await receive(inbox, 1)] == [task]
            assert len(await web.artifacts.get(reference)) == 6_000_000


async def test_nothing_is_overwritten(bus_url: str, tmp_path: Path) -> None:
    """A server in which something was said is left alone, and a folder that is there as well."""
    folder = tmp_path / "saved"
    settings = BusSettings(url=bus_url)
    async with connect(bus_url, name="user") as bus:
        await _filled(bus)
        await backup.backup(settings, folder)
        with pytest.raises(backup_errors.BackupFolderError, match="there already"):
            await backup.backup(settings, folder)
        with pytest.raises(backup_errors.RestoreRefusedError, match="BUS"):
            await backup.restore(settings, folder)
        assert (await bus.storage()).streams[0].messages > 0


async def test_damage_is_found_before_anything_is_made(tmp_path: Path) -> None:
    """A changed byte, a cut file, a missing one, and a folder that is no whole backup."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        await _filled(bus)
        await backup.backup(BusSettings(url=old.url), folder)
    data = folder / "BUS" / "stream.tar.s2"
    content = data.read_bytes()
    async with server.EmbeddedServer() as new:
        settings = BusSettings(url=new.url)
        for spoilt in (content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
            data.write_bytes(spoilt)
            with pytest.raises(backup_errors.BackupDamagedError, match="BUS"):
                await backup.restore(settings, folder)
        data.unlink()
        with pytest.raises(backup_errors.BackupDamagedError, match="gone"):
            await backup.restore(settings, folder)
        data.write_bytes(content)
        (folder / "manifest.json").rename(tmp_path / "manifest.json")
        with pytest.raises(backup_errors.BackupIncompleteError, match=r"manifest\.json"):
            await backup.restore(settings, folder)
        async with connect(new.url, name="user", ensure=False) as bus:
            assert not any(stream.exists for stream in (await bus.storage()).streams)


async def test_a_restore_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Streams before the one that the server refuses are taken away again; the next try works."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        await _filled(bus)
        await backup.backup(BusSettings(url=old.url), folder)
    limits = server.ServerSettings(max_file_store_bytes=1_000)
    async with server.EmbeddedServer(tmp_path / "small", settings=limits) as small:
        with pytest.raises(backup_errors.BackupStreamError, match=r"resources|storage"):
            await backup.restore(BusSettings(url=small.url), folder)
        async with connect(small.url, name="user", ensure=False) as bus:
            assert not any(stream.exists for stream in (await bus.storage()).streams)


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from threadbus.bus import BusSettings, backup

done = 0

def on_stream(_):
    global done
    done += 1
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(backup.restore(BusSettings(url=sys.argv[1]), Path(sys.argv[2]), on_stream=on_stream))
"""


async def test_a_restore_that_was_killed_is_made_again(tmp_path: Path) -> None:
    """After the first stream, and after the last; not where something was said in it since."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        tasks = await _filled(bus)
        before = {task: await _contents(bus, task) for task in tasks}
        manifest = await backup.backup(BusSettings(url=old.url), folder)
    async with server.EmbeddedServer() as new:
        settings = BusSettings(url=new.url)
        for killed_at in (1, len(manifest.streams)):
            words = ("-c", _KILLED, new.url, str(folder), str(killed_at))
            process = await asyncio.create_subprocess_exec(sys.executable, *words)
            assert await process.wait() == -signal.SIGKILL
            async with connect(settings, name="user", ensure=False) as bus:
                there = [s.name for s in (await bus.storage()).streams if s.exists]
            assert there, "something is left of it"
        async with connect(settings, name="user") as bus:
            late = (await bus.tasks.open("Late?", to=[])).event.task
            with pytest.raises(backup_errors.RestoreRefusedError, match="BUS"):
                await backup.restore(settings, folder)
            assert await _contents(bus, late)
    async with server.EmbeddedServer() as new:
        settings = BusSettings(url=new.url)
        words = ("-c", _KILLED, new.url, str(folder), str(len(manifest.streams)))
        process = await asyncio.create_subprocess_exec(sys.executable, *words)
        assert await process.wait() == -signal.SIGKILL
        await backup.restore(settings, folder)
        async with connect(settings, name="user") as bus:
            assert {task: await _contents(bus, task) for task in tasks} == before
        with pytest.raises(backup_errors.RestoreRefusedError):
            await backup.restore(settings, folder)


async def test_an_interrupted_backup_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """A process that is killed in the middle leaves FOLDER.partial, which the next one replaces."""
    folder = tmp_path / "saved"
    partial = tmp_path / "saved.partial"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        await _filled(bus)
        for _ in range(40):
            await bus.artifacts.put(os.urandom(1_000_000))
        env = environment(tmp_path, {"BUS_URL": old.url})
        process = await start("backup", str(folder), env=env)
        await eventually(lambda: (partial / "BUS").is_dir(), "it has begun", DEADLINE_S)
        process.send_signal(signal.SIGKILL)
        await process.wait()

        assert not folder.exists()
        with pytest.raises(backup_errors.BackupIncompleteError):
            backup.check(partial)
        await backup.backup(BusSettings(url=old.url), folder)
        assert not partial.exists()
        assert backup.check(folder).streams


async def _replayed(task: TaskId, url: str) -> bytes:
    ran = await asyncio.to_thread(busreplay, task, "--format", "jsonl", BUS_URL=url)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


async def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    """`bus backup`, `bus restore --check` and `bus restore`, and a replay from the restored log."""
    folder = tmp_path / "saved"
    async with server.EmbeddedServer() as old, connect(old.url, name="user") as bus:
        (task, *_) = await _filled(bus)
        env = environment(tmp_path, {"BUS_URL": old.url})
        saved = await ended(await start("backup", str(folder), "--json", env=env))
        before = (await _replayed(task, old.url)).splitlines()
    assert saved.code == 0, saved.err
    nowhere = environment(tmp_path, {"BUS_URL": NOWHERE})
    checked = await ended(await start("restore", str(folder), "--check", env=nowhere))
    assert (checked.code, "checked 4 streams" in checked.out) == (0, True), checked.err
    async with server.EmbeddedServer() as new:
        env = environment(tmp_path, {"BUS_URL": new.url})
        restored = await ended(await start("restore", str(folder), "--json", env=env))
        assert restored.code == 0, restored.err
        manifests = [msgspec.json.decode(ran.out)["manifest"] for ran in (saved, restored)]
        assert manifests[0] == manifests[1]
        assert (await _replayed(task, new.url)).splitlines() == before
        again = await ended(await start("restore", str(folder), env=env))
        assert again.code == 5


async def test_a_log_of_several_streams_comes_back_as_one(tmp_path: Path) -> None:
    """Each partition and each work queue of inboxes; what waits comes once, in the right one."""
    folder, spread = tmp_path / "saved", BusSettings(partitions=3, inboxes=2)
    names = ("user", "web", "coder", "critique")
    async with (
        server.EmbeddedServer() as old,
        connect(replace(spread, url=old.url), name="user") as bus,
    ):
        for name in names:
            await bus.registry.register(AgentCard(name=name), holder="test", takeover=True)
        tasks = [(await bus.tasks.open(f"{n}?", to=names[1:])).event.task for n in range(6)]
        before = {task: await _contents(bus, task) for task in tasks}
        async with bus.acting_as("web").inbox() as inbox:
            await receive(inbox, 6)
        await comes_to(lambda: _waiting(bus), 12)
        await backup.backup(BusSettings(url=old.url), folder, overlap=timedelta(0))
    async with server.EmbeddedServer() as new:
        await backup.restore(BusSettings(url=new.url), folder)
        async with connect(new.url, name="user") as bus:
            assert {task: await _contents(bus, task) for task in tasks} == before
            last = (await bus.tasks.open("Last?", to=["web"])).event.task
            for name, expected in (("web", [last]), ("coder", tasks), ("critique", tasks)):
                async with bus.acting_as(name).inbox() as inbox:
                    found = await receive(inbox, len(expected))
                assert sorted(d.event.task for d in found) == sorted(expected)
            await comes_to(lambda: _waiting(bus), 0)
