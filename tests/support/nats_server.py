"""A private nats-server process for tests: the one of the installed wheel, on a free port."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_DEADLINE_S = 20.0
STOP_DEADLINE_S = 10.0


@dataclass(frozen=True)
class NatsServer:
    """Where a running server is."""

    url: str
    pid: int
    folder: Path


def nats_server_binary() -> Path:
    """Return the path of the nats-server that came with the Python that runs the tests."""
    return Path(sys.executable).parent / "nats-server"


@contextmanager
def running_nats_server(folder: Path, *, jetstream: bool = True) -> Generator[NatsServer]:
    """Run a server with JetStream; its data, log and configuration go to *folder*.

    The server chooses the port itself, so no other process can take it first.

    Raises:
        RuntimeError: The server ended early or was not ready in time; the message has its log.
    """
    config = folder / "nats.conf"
    jetstream_part = (
        f"jetstream {{ store_dir: {json.dumps(str(folder))}\n"
        "  limits { default_max_consumers: 100000 } }\n"
    )
    config.write_text(
        f"host: 127.0.0.1\nport: -1\n{jetstream_part if jetstream else ''}", encoding="utf-8"
    )
    log = folder / "nats.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [nats_server_binary(), "--config", config],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield NatsServer(url=_wait_until_ready(process, log), pid=process.pid, folder=folder)
    finally:
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + READY_DEADLINE_S
    while time.monotonic() < deadline:
        written = log.read_text(encoding="utf-8", errors="replace")
        address = re.search(r"client connections on (\S+)\n", written)
        if address and "Server is ready" in written:
            return f"nats://{address[1]}"
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"nats-server ended with {process.returncode}:\n{written}")
    raise RuntimeError(f"nats-server was not ready in {READY_DEADLINE_S} s:\n{log.read_text()}")
