"""Fixtures for every test and for the executed documentation; conftest.py loads them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.support.cli import Cli
from tests.support.nats_server import NatsServer, running_nats_server

SETTINGS = ("BUS_", "OPENAI_")
"""Variables that a person may have set, and that must not reach a test: no real server or key."""


def pytest_configure() -> None:
    """Forget settings of the person who runs the tests."""
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def _log_of_its_own() -> None:
    """Forget how an earlier test had the log written: its stream is closed by now.

    A line of the log that cannot be written raises, in the middle of whatever wrote it.
    """
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run each ``async def`` test, and each async fixture, on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A private server with JetStream, shared by the session: use streams of your own."""
    with running_nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def bus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A private server for one document of the documentation, also named by BUS_URL."""
    with (
        running_nats_server(tmp_path_factory.mktemp("nats")) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("BUS_URL", server.url)
        yield server.url


@pytest.fixture
def cli(bus_url: str, tmp_path: Path) -> Cli:
    """The command `bus` on the private server of the module."""
    return Cli(bus_url, tmp_path / "state")
