"""Wait until a started server can be used: not when its port opens, but when JetStream answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from threadbus.bus.server.folder import ServerFolder
from threadbus.bus.server.probe import describe_occupant, find_jetstream
from threadbus.bus.server.process import LeashedServer
from threadbus.bus.server.settings import reachable_host
from threadbus.bus.server_errors import PortInUseError, ServerStartError

_PORT_TAKEN: Final = re.compile(r"listen tcp \S*:(\d{1,5}): bind: address already in use")
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.1


class Ready(NamedTuple):
    """What a server tells once it can be used."""

    port: int
    monitor_url: str | None
    version: str


async def until_ready(
    server: LeashedServer, folder: ServerFolder, host: str, go_on: Callable[[], None]
) -> Ready:
    """Wait until JetStream of *server* answers; the deadline is the caller's.

    Cancellation: leaves the server alone.

    Args:
        server: The process.
        folder: Its data folder.
        host: Where it listens.
        go_on: Called before each look; raises to give up.

    Raises:
        PortInUseError: Another program listens on one of its ports.
        ServerStartError: The server ended.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        go_on()
        if server.exit_code is not None:
            raise await _failure(server.exit_code, folder, host)
        ports = folder.read_ports(server.pid)
        if ports is not None:
            port = urlsplit(ports.nats[0]).port or 0
            info = await find_jetstream(reachable_host(host), port)
            if info is not None:
                return Ready(port, next(iter(ports.monitoring), None), info.version)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


async def _failure(
    exit_code: int, folder: ServerFolder, host: str
) -> PortInUseError | ServerStartError:
    lines = folder.last_lines()
    taken = _PORT_TAKEN.search("\n".join(lines))
    if taken is None:
        return ServerStartError(exit_code, lines, str(folder.log))
    port = int(taken[1])
    return PortInUseError(host, port, await describe_occupant(reachable_host(host), port))
