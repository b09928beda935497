"""No server outlives the process that started it, however that one ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from nats.js.api import StreamConfig

from tests.support.embedded_servers import (
    HOLD_SERVER,
    PATIENCE_S,
    eventually,
    is_gone,
    is_listening,
    jetstream_of,
    loop_turns,
    make_slow_server,
    program,
    said,
)
from threadbus.bus.server import BINARY_VARIABLE, EmbeddedServer
from threadbus.bus.server.lock import LockHolder, lock_holder

FORKS = """\
import asyncio, json, os, signal, sys
from pathlib import Path
from threadbus.bus.server import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1])) as server:
        child = os.fork()
        if child == 0:
            signal.pause()
        print(json.dumps({"pid": server.pid, "port": server.port, "child": child}), flush=True)
        await server.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGHUP])
def test_a_server_dies_with_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    """A signal that ends the owner at once ends the server: no process, no open port."""

    async def scenario() -> None:
        async with program(HOLD_SERVER, tmp_path) as owner:
            server = await said(owner)
            assert is_listening(server["port"])
            owner.send_signal(number)

            await eventually(lambda: is_gone(server["pid"]), "the server is gone")
            await eventually(lambda: not is_listening(server["port"]), "its port is closed")
            await eventually(lambda: not _group_members(server["pid"]), "its watchdog is gone")

    asyncio.run(scenario())


def test_a_server_that_is_not_ready_dies_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that is killed in the middle of a start leaves nothing either."""
    monkeypatch.setenv(BINARY_VARIABLE, str(make_slow_server(tmp_path)))
    data = tmp_path / "data"
    started = data / "started"

    async def scenario() -> None:
        async with program(HOLD_SERVER, data) as owner:
            await eventually(lambda: started.exists() and started.read_text() != "", "a child")
            pid = int(started.read_text())
            assert not is_gone(pid)
            owner.kill()

            await eventually(lambda: is_gone(pid), "the server is gone")
            await eventually(lambda: not _group_members(pid), "its watchdog is gone")

    asyncio.run(scenario())


def test_a_forked_child_does_not_keep_the_server(tmp_path: Path) -> None:
    """A child that the owner forked, and that lives on, keeps neither server nor lock alive."""

    async def scenario() -> None:
        async with program(FORKS, tmp_path) as owner:
            server = await said(owner)
            try:
                owner.kill()
                await eventually(lambda: is_gone(server["pid"]), "the server is gone")
                assert not is_gone(server["child"])

                async with EmbeddedServer(tmp_path) as second:
                    assert second.is_running
            finally:
                os.kill(server["child"], signal.SIGKILL)

    asyncio.run(scenario())


def test_the_folder_of_a_killed_owner_can_be_used_at_once(tmp_path: Path) -> None:
    """A new owner waits for the dying server instead of being refused, and finds the data."""

    async def scenario() -> None:
        async with program(HOLD_SERVER, tmp_path) as owner:
            first = await said(owner)
            async with jetstream_of(f"nats://127.0.0.1:{first['port']}") as stream:
                await stream.add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
                await stream.publish("kept", b"1")
            owner.kill()
            await owner.wait()
            async with EmbeddedServer(tmp_path) as server, jetstream_of(server.url) as stream:
                info = await stream.stream_info("KEPT")

                assert is_gone(first["pid"])
                assert info.state.messages == 1

    asyncio.run(scenario())


def test_the_folder_stays_locked_until_the_server_itself_is_gone(tmp_path: Path) -> None:
    """An owner that died leaves its folder locked by the server, and a new one waits for that."""

    async def enter() -> None:
        async with EmbeddedServer(tmp_path) as server:
            assert server.is_running

    async def scenario() -> None:
        async with program(HOLD_SERVER, tmp_path) as owner:
            first = await said(owner)
            (watchdog,) = set(_group_members(first["pid"])) - {first["pid"]}
            # Held up, so that the server outlives its owner for a moment.
            os.kill(watchdog, signal.SIGSTOP)
            owner.kill()
            await owner.wait()
            try:
                assert lock_holder(tmp_path) == LockHolder(owner.pid, first["pid"])
                entering = asyncio.create_task(enter())
                await loop_turns(10)
                assert not entering.done()
            finally:
                os.kill(watchdog, signal.SIGCONT)

            await entering
            assert is_gone(first["pid"])

    asyncio.run(scenario())


def test_a_killed_server_takes_its_watchdog_along() -> None:
    """After kill(), stop() and a restart no watchdog of an earlier start is left."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            groups = [server.pid]
            await server.kill()
            await server.start()
            groups.append(server.pid)
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
            await server.start()
            groups.append(server.pid)
            assert len(_group_members(server.pid)) == 2
        await eventually(lambda: not any(map(_group_members, groups)), "all groups are empty")

    asyncio.run(scenario())


def test_ctrl_c_in_a_terminal_does_not_reach_the_server() -> None:
    """The server is in a session of its own, so it ends when its owner says so."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            assert os.getsid(server.pid) == server.pid
            assert os.getsid(server.pid) != os.getsid(0)

    asyncio.run(scenario())


def test_a_server_outlives_the_thread_that_started_it() -> None:
    """The leash hangs on the process: the end of the thread that forked changes nothing."""
    loop = asyncio.new_event_loop()
    server = EmbeddedServer()

    def start() -> None:
        loop.run_until_complete(server.__aenter__())

    async def use_and_close() -> None:
        try:
            async with jetstream_of(server.url) as stream:
                await stream.account_info()
            assert server.is_running
        finally:
            await server.aclose()

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(PATIENCE_S)
    try:
        assert not thread.is_alive()
        loop.run_until_complete(use_and_close())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _group_members(group: int) -> list[int]:
    """Return the living processes of a process group."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,pid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pgid, pid, stat in rows if pgid == str(group) and not stat.startswith("Z")]
