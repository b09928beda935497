"""Where an embedded server listens, and what it says when something else does."""

from __future__ import annotations

import asyncio
import re
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.embedded_servers import eventually, jetstream_of
from threadbus.bus.server import (
    EmbeddedServer,
    ServerSettings,
    find_jetstream,
    find_server_binary,
    read_info,
)
from threadbus.bus.server_errors import (
    InvalidServerSettingError,
    PortInUseError,
    UnsupportedPlatformError,
)


def test_a_port_of_another_program_is_refused() -> None:
    """The error names the port and that it is not NATS which listens there."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = int(other.getsockname()[1])
            with pytest.raises(PortInUseError, match="not NATS") as caught:
                async with EmbeddedServer(port=port):
                    pass

        assert caught.value.port == port

    asyncio.run(scenario())


def test_a_port_of_another_nats_server_is_refused() -> None:
    """A server that answers on the port is not taken for ours: the error tells its version."""

    async def scenario() -> None:
        async with EmbeddedServer() as first:
            with pytest.raises(PortInUseError, match=first.version) as caught:
                async with EmbeddedServer(port=first.port):
                    pass

            assert caught.value.port == first.port

    asyncio.run(scenario())


def test_a_taken_monitoring_port_is_told_by_its_number() -> None:
    """The port in the error is the one that is in use, not the client port."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = int(other.getsockname()[1])
            with pytest.raises(PortInUseError) as caught:
                async with EmbeddedServer(settings=ServerSettings(monitor_port=port)):
                    pass

        assert caught.value.port == port

    asyncio.run(scenario())


def test_a_port_that_was_lost_while_down_can_be_waited_for(tmp_path: Path) -> None:
    """When something took the port of a killed server, start() fails, and works once it is free."""

    async def scenario() -> None:
        async with EmbeddedServer(tmp_path) as server:
            port = server.port
            await server.kill()
            with socket.create_server(("127.0.0.1", port)), pytest.raises(PortInUseError):
                await server.start()
            assert not server.is_running
            await server.start()
            assert server.port == port

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - the point
def test_the_url_can_be_connected_to(host: str) -> None:
    """Whatever host it listens on, the URL is one that a client of this machine can use."""

    async def scenario() -> None:
        async with EmbeddedServer(host=host) as server, jetstream_of(server.url) as stream:
            await stream.account_info()

    asyncio.run(scenario())


def test_ipv6_addresses_work() -> None:
    """An IPv6 address is bracketed in the URL."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")

    async def scenario() -> None:
        for host in ("::1", "::"):
            async with EmbeddedServer(host=host) as server, jetstream_of(server.url) as stream:
                assert server.url == f"nats://[::1]:{server.port}"
                await stream.account_info()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "host", ["", "[::1]", "a b", 'x","port":1,"y":"', "h" * 254, "127.0.0.1\n"]
)
def test_a_host_that_is_none_is_refused(host: str) -> None:
    """The error names the value before anything is started."""
    with pytest.raises(InvalidServerSettingError, match="host"):
        EmbeddedServer(host=host)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_outside_the_range_is_refused(port: int) -> None:
    """The error names the value and the range."""
    with pytest.raises(InvalidServerSettingError, match="65,535"):
        EmbeddedServer(port=port)


def test_windows_is_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows the first use says what works instead."""
    monkeypatch.setattr("sys.platform", "win32")

    with pytest.raises(UnsupportedPlatformError, match="WSL"):
        EmbeddedServer()


@pytest.mark.parametrize("greeting", [b"INFO {not json\r\n", b"INFO {}\r\n", b"x" * 200_000, b""])
def test_a_probe_takes_noise_for_no_server(greeting: bytes) -> None:
    """What does not greet like NATS is None for a probe, whatever it says, and so is silence."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as listener:
            port = int(listener.sockets[0].getsockname()[1])
            brief = timedelta(milliseconds=200)
            assert await read_info("127.0.0.1", port, timeout=brief) is None
            assert await find_jetstream("127.0.0.1", port, timeout=brief) is None

    asyncio.run(scenario())


def test_a_probe_raises_where_nothing_listens() -> None:
    """A closed port is an OSError for read_info and None for find_jetstream."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])

    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError):
            await read_info("127.0.0.1", port)
        assert await find_jetstream("127.0.0.1", port) is None

    asyncio.run(scenario())


def test_a_server_without_jetstream_is_told_apart(tmp_path: Path) -> None:
    """A plain nats-server is known by its INFO, and has no JetStream to find."""

    async def scenario() -> None:
        binary = await find_server_binary()
        process = await asyncio.create_subprocess_exec(
            binary.path,
            *("--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", tmp_path),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await eventually(lambda: _ports_in(tmp_path) is not None, "the server listens")
            port = _ports_in(tmp_path) or 0
            info = await read_info("127.0.0.1", port)

            assert info is not None
            assert info.version == binary.version
            assert not info.jetstream
            assert await find_jetstream("127.0.0.1", port) is None
        finally:
            process.kill()
            await process.wait()

    asyncio.run(scenario())


def _ports_in(folder: Path) -> int | None:
    for path in folder.glob("*.ports"):
        found = re.search(r"nats://127\.0\.0\.1:(\d+)", path.read_text(encoding="utf-8"))
        if found is not None:
            return int(found[1])
    return None
