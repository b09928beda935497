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


@pytest.fixture(params=["memory", "nats"])
async def env(request: pytest.FixtureRequest) -> AsyncIterator[BusEnv]:
    """An empty bus."""
    if request.param == "memory":
        yield MemoryEnv()
        return
    nats = NatsEnv(request.getfixturevalue("contract_url"))
    yield nats
    await nats.clear()
