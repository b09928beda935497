"""Where the contract suite runs: each test once in memory and once on a private server."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.bus_env import BusEnv, MemoryEnv, NatsEnv
from tests.support.nats_server import running_nats_server


@pytest.fixture(scope="session")
def contract_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the suite's own, since each test empties it."""
    with running_nats_server(tmp_path_factory.mktemp("contract")) as server:
        yield server.url


SPREAD = {
    "test_bus_following",
    "test_bus_guard",
    "test_bus_inbox",
    "test_bus_opening",
    "test_bus_pairs",
    "test_bus_reading",
}
"""What is tried on several streams too: reading and writing the log, and being woken."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say on which buses a test runs."""
    if "env" in metafunc.fixturenames:
        is_tried = metafunc.definition.path.stem in SPREAD
        where = ["memory", "nats", *(["spread"] if is_tried else [])]
        metafunc.parametrize("env", where, indirect=True)


@pytest.fixture
async def env(request: pytest.FixtureRequest) -> AsyncIterator[BusEnv]:
    """An empty bus: in memory, on one stream each, on several streams of log and inboxes."""
    if request.param == "memory":
        yield MemoryEnv()
        return
    url = request.getfixturevalue("contract_url")
    nats = NatsEnv(url, partitions=3, inboxes=3) if request.param == "spread" else NatsEnv(url)
    yield nats
    await nats.clear()
