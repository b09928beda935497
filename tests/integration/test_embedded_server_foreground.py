"""A server that a person runs, and how that person's other commands find it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from nats.js.api import StreamConfig

from tests.support.embedded_servers import (
    PATIENCE_S,
    eventually,
    is_gone,
    jetstream_of,
    program,
    said,
)
from threadbus.bus.server import EmbeddedServer, default_data_folder, read_state, run_foreground
from threadbus.bus.server.lock import lock_holder
from threadbus.bus.server_errors import (
    DataFolderLockedError,
    PortInUseError,
    ServerAlreadyRunningError,
)

RUN = """\
import asyncio, json, sys
from threadbus.bus.server import run_foreground

def ready(server):
    print(json.dumps({"pid": server.pid, "port": server.port}), flush=True)

asyncio.run(run_foreground(port=int(sys.argv[1]), on_ready=ready))
"""

RUN_ELSEWHERE = """\
import asyncio, json, sys
from pathlib import Path
from threadbus.bus.server import run_foreground

def ready(server):
    print(json.dumps({"pid": server.pid, "port": server.port}), flush=True)

asyncio.run(run_foreground(data=Path(sys.argv[1]), port=0, on_ready=ready))
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def _ended(process: Process) -> tuple[int | None, str]:
    async with asyncio.timeout(PATIENCE_S):
        _, errors = await process.communicate()
    return process.returncode, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_runs_until_a_signal(number: signal.Signals) -> None:
    """A signal ends server and command cleanly, and the state file goes with them."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            state = read_state()
            assert state is not None
            assert state.pid == server["pid"]
            assert state.url == f"nats://127.0.0.1:{server['port']}"
            assert state.data == default_data_folder()
            assert read_state(server["port"]) == state
            command.send_signal(number)

            assert await _ended(command) == (0, "")
            assert is_gone(server["pid"])
            assert read_state() is None
            assert list(state.data.parent.glob("*.json")) == []
            assert "Server Exiting" in (state.data / "server.log").read_text(encoding="utf-8")

    asyncio.run(scenario())


def test_the_state_file_is_private_and_complete() -> None:
    """It is readable by its owner only, and tells url, process, start, data and version."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            state = read_state()
            assert state is not None
            path = state.data.parent / f"server-{server['port']}.json"

            assert path.stat().st_mode & 0o777 == 0o600
            assert state.started_at.tzinfo is not None
            assert state.version.startswith("2.")

    asyncio.run(scenario())


def test_data_survives_a_restart_of_the_command() -> None:
    """What was stored under one run is there under the next, with no folder named."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            port = (await said(command))["port"]
            async with jetstream_of(f"nats://127.0.0.1:{port}") as stream:
                await stream.add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
                await stream.publish("kept", b"1")
            command.terminate()
            await _ended(command)
        async with program(RUN, str(port)) as command:
            assert (await said(command))["port"] == port
            async with jetstream_of(f"nats://127.0.0.1:{port}") as stream:
                assert (await stream.stream_info("KEPT")).state.messages == 1

    asyncio.run(scenario())


def test_a_state_file_of_a_killed_command_is_stale() -> None:
    """After SIGKILL the file is still there, and is not believed."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            command.kill()
            await command.wait()
            await eventually(lambda: is_gone(server["pid"]), "the server is gone")

            path = default_data_folder().parent / f"server-{server['port']}.json"
            assert path.exists()
            assert read_state() is None

    asyncio.run(scenario())


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"pid":"x"}', b"[" * 100_000])
def test_a_state_file_of_rubbish_is_no_state(content: bytes) -> None:
    """Whatever is in the file, reading it is None and not an error."""
    folder = default_data_folder().parent
    folder.mkdir(parents=True)
    (folder / "server-4222.json").write_bytes(content)
    (folder / "server-1.json").mkdir()

    assert read_state() is None
    assert read_state(4222) is None


def test_a_state_file_that_names_another_process_is_stale() -> None:
    """A living process that is not the server of the data folder does not count."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            path = default_data_folder().parent / f"server-{server['port']}.json"
            told = path.read_text(encoding="utf-8")
            path.write_text(told.replace(str(server["pid"]), str(os.getpid())), encoding="utf-8")

            assert read_state(server["port"]) is None

    asyncio.run(scenario())


def test_reading_the_state_does_not_disturb_a_start(tmp_path: Path) -> None:
    """A reader glances at the lock; a server that starts meanwhile is not refused."""

    async def scenario() -> None:
        stop = asyncio.Event()

        async def glance() -> None:
            while not stop.is_set():
                await asyncio.to_thread(lock_holder, tmp_path)

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(glance())
            for _ in range(5):
                async with EmbeddedServer(tmp_path) as server:
                    assert server.is_running
            stop.set()

    asyncio.run(scenario())


def test_a_server_that_runs_already_is_named_with_its_version() -> None:
    """A second run on the port is refused, says what answers there, and changes nothing."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            before = read_state()
            with pytest.raises(ServerAlreadyRunningError) as caught:
                await run_foreground(port=server["port"])

            assert before is not None
            assert caught.value.version == before.version
            assert caught.value.url == before.url
            assert caught.value.has_jetstream
            assert read_state() == before

    asyncio.run(scenario())


def test_the_data_folder_of_a_running_server_is_refused() -> None:
    """A second run on another port, with the same folder, is told who uses it."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            with pytest.raises(DataFolderLockedError, match=str(server["pid"])):
                await run_foreground(port=0)

    asyncio.run(scenario())


def test_a_port_of_another_program_is_refused_before_anything_is_made() -> None:
    """The error says that it is not NATS which listens, and no data folder is made."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = int(other.getsockname()[1])
            with pytest.raises(PortInUseError, match="not NATS"):
                await run_foreground(port=port)

        assert not default_data_folder().exists()

    asyncio.run(scenario())


def test_a_server_that_dies_ends_the_command_with_an_error() -> None:
    """When the server is killed under it, the command fails and takes the state file along."""

    async def scenario() -> None:
        async with program(RUN, "0") as command:
            server = await said(command)
            os.kill(server["pid"], signal.SIGKILL)
            exit_code, errors = await _ended(command)

            assert exit_code == 1
            assert "ServerExitedError: nats-server ended by itself (signal 9)" in errors
            assert list(default_data_folder().parent.glob("*.json")) == []

    asyncio.run(scenario())


def test_two_servers_are_both_found(tmp_path: Path) -> None:
    """Without a port the one that was started last is returned, with a port that one."""

    async def scenario() -> None:
        async with program(RUN, "0") as first:
            first_port = (await said(first))["port"]
            async with program(RUN_ELSEWHERE, tmp_path / "other") as second:
                second_port = (await said(second))["port"]
                latest, earlier = read_state(), read_state(first_port)

            assert earlier is not None
            assert earlier.url.endswith(f":{first_port}")
            assert latest is not None
            assert latest.url.endswith(f":{second_port}")
            assert latest.data == tmp_path / "other"

    asyncio.run(scenario())


def test_cancelling_it_stops_the_server(tmp_path: Path) -> None:
    """A cancellation is not mistaken for a signal: it comes through, and the server is gone."""

    async def scenario() -> None:
        pids: list[int] = []
        ready = asyncio.Event()

        def on_ready(server: EmbeddedServer) -> None:
            pids.append(server.pid)
            ready.set()

        running = asyncio.create_task(
            run_foreground(port=0, data=tmp_path / "data", on_ready=on_ready)
        )
        await ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert is_gone(pids[0])
        assert read_state() is None

    asyncio.run(scenario())


def test_the_state_folder_follows_the_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_STATE_HOME counts when it is absolute; otherwise it is ~/.local/state."""
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_data_folder() == Path("/home/someone/.local/state/threadbus/server")

    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_data_folder() == Path("/var/state/threadbus/server")
