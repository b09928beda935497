"""NATS in a container serves JetStream like the private process does."""

from collections.abc import Iterator

import nats
import pytest
from nats.js.api import StreamConfig

from tests.support.docker_nats import docker_engine, nats_container, nats_image
from tests.support.nats_server import NatsServer
from tests.support.require import require


@pytest.fixture(scope="module")
def docker_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server in a container of an image that was built for it."""
    engine = docker_engine()
    require("a Docker engine that answers (apt-get install docker.io)", engine)
    assert engine is not None
    with (
        nats_image(tmp_path_factory.mktemp("image")) as image,
        nats_container(engine, image) as url,
    ):
        yield url


async def _round_trip(url: str) -> tuple[int, bytes | None]:
    """Publish one message to a stream and read it back, with nothing but nats-py."""
    # nats-py leaves the types of its options open.
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
    try:
        stream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]
        await stream.add_stream(  # pyright: ignore[reportUnknownMemberType]
            StreamConfig(name="ROUND", subjects=["round.>"])
        )
        published = await stream.publish("round.trip", b"there and back")
        read = await stream.get_msg("ROUND", published.seq)
        await stream.delete_stream("ROUND")
        return published.seq, read.data
    finally:
        await client.close()


async def test_a_container_stores_and_returns_a_message(docker_nats: str) -> None:
    """JetStream works in a container of an image that holds only the server."""
    assert await _round_trip(docker_nats) == (1, b"there and back")


async def test_the_private_server_stores_and_returns_a_message(nats_server: NatsServer) -> None:
    """The server that most tests use does the same."""
    assert await _round_trip(nats_server.url) == (1, b"there and back")
