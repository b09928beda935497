"""Start, stop, kill and start again: one embedded server from entering to leaving."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
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
    make_slow_server,
    program,
    said,
)
from threadbus.bus.server import BINARY_VARIABLE, EmbeddedServer, ServerSettings, find_jetstream
from threadbus.bus.server_errors import (
    ServerStartError,
    ServerStartTimeoutError,
    ServerStateError,
)


async def _publish(url: str, text: str) -> None:
    async with jetstream_of(url) as stream:
        await stream.add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
        await stream.publish("kept", text.encode())


async def _first_kept(url: str) -> str:
    async with jetstream_of(url) as stream:
        message = await stream.get_msg("KEPT", 1)
        return (message.data or b"").decode()


def test_jetstream_answers_as_soon_as_it_is_entered() -> None:
    """Inside the context the first request to JetStream is answered, and all is told."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            info = await find_jetstream("127.0.0.1", server.port)
            await _publish(server.url, "at once")

            assert info is not None
            assert info.version == server.version
            assert server.url == f"nats://127.0.0.1:{server.port}"
            assert server.is_running
            assert not is_gone(server.pid)
            assert server.log_path.parent == server.data
            assert "Server is ready" in "\n".join(server.log_tail)
            assert server.monitor_url is None

    asyncio.run(scenario())


def test_leaving_ends_the_server_and_removes_a_temporary_folder() -> None:
    """After the context neither the process, the port nor the temporary folder is left."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            pid, port, data = server.pid, server.port, server.data

        assert is_gone(pid)
        assert not is_listening(port)
        assert not data.exists()
        assert not server.is_running

    asyncio.run(scenario())


async def _fail_inside(server: EmbeddedServer, pids: list[int]) -> None:
    async with server:
        pids.append(server.pid)
        raise ZeroDivisionError


def test_leaving_by_an_exception_ends_the_server() -> None:
    """An error inside the context passes through, and the server is gone."""

    async def scenario() -> None:
        server = EmbeddedServer()
        pids: list[int] = []
        with pytest.raises(ZeroDivisionError):
            await _fail_inside(server, pids)

        assert is_gone(pids[0])
        assert not server.data.exists()

    asyncio.run(scenario())


def test_data_survives_a_restart(tmp_path: Path) -> None:
    """A second server on the same folder has the streams of the first."""

    async def scenario() -> None:
        async with EmbeddedServer(tmp_path / "data") as server:
            await _publish(server.url, "still here")
        async with EmbeddedServer(tmp_path / "data") as server:
            assert await _first_kept(server.url) == "still here"

    asyncio.run(scenario())


def test_a_killed_server_starts_again_on_its_port_and_data() -> None:
    """After kill() the port is closed; start() brings back the same URL and the data."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            await _publish(server.url, "survived")
            url, pid, port = server.url, server.pid, server.port
            await server.kill()

            assert is_gone(pid)
            assert not is_listening(port)
            assert await server.wait() == -signal.SIGKILL
            await server.start()
            assert server.url == url
            assert server.pid != pid
            assert await _first_kept(url) == "survived"

    asyncio.run(scenario())


def test_a_crash_is_noticed_and_start_helps() -> None:
    """When something else kills the server, wait() returns, and it can be started again."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            await _publish(server.url, "survived")
            waiters = [asyncio.create_task(server.wait()) for _ in range(2)]
            os.kill(server.pid, signal.SIGKILL)

            async with asyncio.timeout(PATIENCE_S):
                assert await asyncio.gather(*waiters) == [-signal.SIGKILL] * 2
            assert not server.is_running
            with pytest.raises(ServerStateError, match="not running"):
                _ = server.pid
            await server.start()
            assert await _first_kept(server.url) == "survived"

    asyncio.run(scenario())


def test_stop_is_clean_and_idempotent() -> None:
    """stop() ends the server by SIGTERM, a second one does nothing, start() works after it."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            await server.stop()
            await server.stop()

            assert await server.wait() == 0
            assert "Server Exiting" in "\n".join(server.log_tail)
            await server.start()
            assert server.is_running

    asyncio.run(scenario())


def test_a_server_that_ignores_sigterm_is_killed() -> None:
    """When the deadline of stop() is over, the server gets SIGKILL."""

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            pid = server.pid
            os.kill(pid, signal.SIGSTOP)
            await server.stop(timedelta(milliseconds=20))

            assert await server.wait() == -signal.SIGKILL
            assert is_gone(pid)

    asyncio.run(scenario())


def test_calls_that_do_not_fit_are_refused() -> None:
    """Starting twice, entering twice and asking before entering say what to do instead."""

    async def scenario() -> None:
        server = EmbeddedServer()
        with pytest.raises(ServerStateError, match="not entered yet"):
            await server.start()
        with pytest.raises(ServerStateError, match="enter its context"):
            _ = server.data
        with pytest.raises(ServerStateError, match="enter its context"):
            await server.wait()
        with pytest.raises(ServerStateError, match="port"):
            _ = server.url
        async with server:
            with pytest.raises(ServerStateError, match="running; stop"):
                await server.start()
        with pytest.raises(ServerStateError, match="closed"):
            await server.start()
        with pytest.raises(ServerStateError, match="make a new"):
            async with server:
                pass

    asyncio.run(scenario())


def test_a_server_that_is_never_ready_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After start_timeout the child is killed and the error says so."""
    monkeypatch.setenv(BINARY_VARIABLE, str(make_slow_server(tmp_path)))
    data = tmp_path / "data"

    async def scenario() -> None:
        with pytest.raises(ServerStartTimeoutError, match=r"0\.5 s"):
            async with EmbeddedServer(data, start_timeout=timedelta(seconds=0.5)):
                pass

        assert is_gone(int((data / "started").read_text()))

    asyncio.run(scenario())


def test_a_server_that_cannot_start_shows_its_last_lines(tmp_path: Path) -> None:
    """When nats-server refuses its store, the error carries exit code and log lines."""
    (tmp_path / "jetstream").write_text("in the way", encoding="utf-8")

    async def scenario() -> None:
        with pytest.raises(ServerStartError, match="not a directory") as caught:
            async with EmbeddedServer(tmp_path):
                pass

        assert caught.value.exit_code == 1
        assert caught.value.log_path == str(tmp_path / "server.log")
        assert any("JetStream" in line for line in caught.value.log_lines)

    asyncio.run(scenario())


def test_what_goes_wrong_before_the_log_is_open_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the binary prints on its own output is part of the error."""
    binary = tmp_path / "broken"
    binary.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo v2.15.1 && exit\necho panic: no >&2; exit 3\n',
        encoding="utf-8",
    )
    binary.chmod(0o700)
    monkeypatch.setenv(BINARY_VARIABLE, str(binary))

    async def scenario() -> None:
        with pytest.raises(ServerStartError, match="panic: no") as caught:
            async with EmbeddedServer():
                pass

        assert caught.value.exit_code == 3

    asyncio.run(scenario())


def test_twenty_servers_at_once_get_ports_of_their_own() -> None:
    """Servers that start at the same time never share a port or a folder."""

    async def scenario() -> None:
        servers = [EmbeddedServer() for _ in range(20)]
        try:
            async with asyncio.TaskGroup() as group:
                for server in servers:
                    group.create_task(server.__aenter__())

            assert len({server.port for server in servers}) == 20
            assert len({server.data for server in servers}) == 20
            assert len({server.pid for server in servers}) == 20
        finally:
            for server in servers:
                await server.aclose()

    asyncio.run(scenario())


def test_a_server_that_is_dropped_is_killed_and_reported(tmp_path: Path) -> None:
    """Losing the last reference to an open server warns, and its process dies."""

    async def scenario() -> None:
        held = [EmbeddedServer(tmp_path)]
        await held[0].__aenter__()
        pid = held[0].pid
        with pytest.warns(ResourceWarning, match="was not closed"):
            held.clear()

        await eventually(lambda: is_gone(pid), "the server is gone")

    asyncio.run(scenario())


def test_a_whole_life_raises_no_resource_warning(tmp_path: Path) -> None:
    """With warnings as errors nothing is written to standard error."""

    async def scenario() -> None:
        async with program(HOLD_SERVER, tmp_path) as owner:
            server = await said(owner)
            os.kill(server["pid"], signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                _, errors = await owner.communicate()

            assert errors.decode() == ""
            assert owner.returncode == 0

    asyncio.run(scenario())


def test_the_log_does_not_grow_without_bounds() -> None:
    """The configuration turns the log over and keeps a few files."""

    async def scenario() -> None:
        async with EmbeddedServer(settings=ServerSettings(monitor_port=0)) as server:
            text = (server.data / "server.conf").read_text(encoding="utf-8")

            assert '"logfile_size_limit": 16777216' in text
            assert '"logfile_max_num": 3' in text
            assert server.monitor_url is not None
            assert server.monitor_url.startswith("http://127.0.0.1:")

    asyncio.run(scenario())
