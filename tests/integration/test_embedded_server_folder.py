"""The data folder: one server at a time, its files, and what happens when it is full."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from nats.js.api import ConsumerConfig, StreamConfig
from nats.js.errors import APIError

from tests.support.embedded_servers import HOLD_SERVER, JetStream, jetstream_of, program, said
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.bus.server_errors import DataFolderError, DataFolderLockedError


def test_a_folder_in_use_is_refused_with_the_pids_that_hold_it(tmp_path: Path) -> None:
    """A second server on the folder of another process is told who uses it; the first goes on."""

    async def scenario() -> None:
        async with program(HOLD_SERVER, tmp_path) as owner:
            first = await said(owner)
            with pytest.raises(DataFolderLockedError) as caught:
                async with EmbeddedServer(tmp_path):
                    pass

            assert caught.value.owner_pid == owner.pid
            assert caught.value.server_pid == first["pid"]
            assert str(owner.pid) in str(caught.value)
            assert str(first["pid"]) in str(caught.value)
            async with jetstream_of(f"nats://127.0.0.1:{first['port']}") as stream:
                await stream.account_info()

    asyncio.run(scenario())


def test_a_folder_is_refused_to_its_own_process_too(tmp_path: Path) -> None:
    """Two servers of one process cannot share a folder, not even while the first is stopped."""

    async def scenario() -> None:
        async with EmbeddedServer(tmp_path) as server:
            await server.stop()
            with pytest.raises(DataFolderLockedError, match=str(os.getpid())):
                async with EmbeddedServer(tmp_path):
                    pass
            await server.start()
        async with EmbeddedServer(tmp_path) as server:
            assert server.is_running

    asyncio.run(scenario())


@pytest.mark.parametrize("left", ["", "garbage", json.dumps({"owner": 1, "server": 1})])
def test_a_lock_file_that_nobody_holds_is_no_lock(tmp_path: Path, left: str) -> None:
    """What a crash left in the lock file, even the id of a living process, stops nobody."""
    (tmp_path / "server.lock").write_text(left, encoding="utf-8")

    async def scenario() -> None:
        async with EmbeddedServer(tmp_path) as server:
            assert server.is_running

    asyncio.run(scenario())


async def _publish_for_ever(stream: JetStream) -> None:
    while True:
        await stream.publish("full", b"x" * 16 * 1024)


def test_a_full_store_refuses_publishing_and_still_reads() -> None:
    """At max_file_store a publish gets an error, what was stored can be read, nothing breaks."""

    async def scenario() -> None:
        settings = ServerSettings(max_file_store_bytes=256 * 1024)
        async with EmbeddedServer(settings=settings) as server, jetstream_of(server.url) as stream:
            await stream.add_stream(StreamConfig(name="FULL", subjects=["full"]))
            for _ in range(10):
                await stream.publish("full", b"x" * 16 * 1024)
            with pytest.raises(APIError) as caught:
                await _publish_for_ever(stream)

            assert "insufficient" in str(caught.value.description)
            stored = (await stream.stream_info("FULL")).state.messages
            assert 10 <= stored < 20
            assert (await stream.get_msg("FULL", 1)).data == b"x" * 16 * 1024
            assert (await stream.get_msg("FULL", stored)).data == b"x" * 16 * 1024

    asyncio.run(scenario())


def test_a_stream_takes_as_many_consumers_as_set() -> None:
    """max_consumers reaches the server, whose own default would be a thousand."""

    async def scenario() -> None:
        settings = ServerSettings(max_consumers=2)
        async with EmbeddedServer(settings=settings) as server, jetstream_of(server.url) as stream:
            await stream.add_stream(StreamConfig(name="FEW", subjects=["few"]))
            for name in ("one", "two"):
                await stream.add_consumer("FEW", ConsumerConfig(durable_name=name))
            with pytest.raises(APIError, match="maximum consumers limit"):
                await stream.add_consumer("FEW", ConsumerConfig(durable_name="three"))

    asyncio.run(scenario())


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """A folder that we make has mode 0700, the configuration and the lock have 0600."""

    async def scenario() -> None:
        async with EmbeddedServer(tmp_path / "deep" / "data") as server:
            assert server.data.stat().st_mode & 0o777 == 0o700
            for name in ("server.conf", "server.lock", "server.err"):
                assert (server.data / name).stat().st_mode & 0o777 == 0o600

    asyncio.run(scenario())


def test_a_folder_may_have_any_printable_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes, blanks, dollars and other alphabets do no harm, nor does a relative path."""
    monkeypatch.chdir(tmp_path)
    odd = Path("""it's a "Ordner" \\ $HOME {日本} %d #1""")

    async def scenario() -> None:
        async with EmbeddedServer(odd) as server, jetstream_of(server.url) as stream:
            await stream.add_stream(StreamConfig(name="ODD", subjects=["odd"]))

            assert server.data == tmp_path / odd
            assert (tmp_path / odd / "jetstream" / "$G" / "streams" / "ODD").is_dir()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["line\nbreak", "bell\a", "\udcff", "nul\0"])
def test_a_path_that_cannot_be_written_down_is_refused(tmp_path: Path, name: str) -> None:
    """Control characters and bytes that are not UTF-8 in the path get an error that says so."""

    async def scenario() -> None:
        with pytest.raises(DataFolderError):
            async with EmbeddedServer(tmp_path / name):
                pass

    asyncio.run(scenario())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """The error names the path and the reason."""
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")

    async def scenario() -> None:
        for data in (path, path / "below"):
            with pytest.raises(DataFolderError, match="file"):
                async with EmbeddedServer(data):
                    pass

    asyncio.run(scenario())
