"""The errors of the embedded server."""

from __future__ import annotations

import pickle

import pytest

from threadbus.bus.errors import BusError
from threadbus.bus.server_errors import (
    DataFolderError,
    DataFolderLockedError,
    EmbeddedServerError,
    InvalidServerSettingError,
    PortInUseError,
    ServerAlreadyRunningError,
    ServerBinaryMissingError,
    ServerExitedError,
    ServerSpawnError,
    ServerStartError,
    ServerStartTimeoutError,
    ServerStateError,
    ServerStopError,
    UnsupportedPlatformError,
)
from threadbus.schemas import ThreadbusError

ERRORS: list[tuple[EmbeddedServerError, list[str]]] = [
    (UnsupportedPlatformError("win32"), ["win32", "WSL"]),
    (InvalidServerSettingError("port", "-1", "from 0 to 65,535"), ["port", "-1", "65,535"]),
    (ServerBinaryMissingError(("/a: no", "/b: old"), "2.12.0"), ["/a: no", "/b: old", "2.12.0"]),
    (ServerStateError("start", "running", "stop() it"), ["start", "running", "stop() it"]),
    (DataFolderError("/data", "is a file"), ["/data", "is a file"]),
    (DataFolderLockedError("/data", 11, 22), ["/data", "process 11", "process 22"]),
    (DataFolderLockedError("/data", 0, 0), ["/data", "left no id"]),
    (PortInUseError("127.0.0.1", 4222, "a cat"), ["127.0.0.1", "4222", "a cat"]),
    (ServerAlreadyRunningError("nats://x:1", "2.15.1", True), ["nats://x:1", "2.15.1", "use it"]),
    (ServerAlreadyRunningError("nats://x:1", "2.15.1", False), ["2.15.1", "without JetStream"]),
    (ServerSpawnError("no memory"), ["no memory", "limits"]),
    (ServerStartError(3, ("one", "two"), "/log"), ["exit code 3", "one", "two"]),
    (ServerStartError(-9, (), "/log"), ["signal 9", "logged nothing"]),
    (ServerStartTimeoutError(1.5, ("one",), "/log"), ["1.5 s", "one", "start_timeout"]),
    (ServerStopError(7, 10.0), ["process 7", "10 s", "disk"]),
    (ServerExitedError(-11, ("one",), "/log"), ["signal 11", "one", "start it again"]),
]

IDS = [f"{type(error).__name__}-{index}" for index, (error, _) in enumerate(ERRORS)]


@pytest.mark.parametrize(("error", "parts"), ERRORS, ids=IDS)
def test_a_message_names_what_is_wrong_and_the_way_out(
    error: EmbeddedServerError, parts: list[str]
) -> None:
    """Every value that was given, and what can be done, is in the message."""
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=IDS)
def test_an_error_survives_pickling(error: EmbeddedServerError) -> None:
    """An error that crosses a process has its type, attributes and message."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert isinstance(again, BusError)
    assert isinstance(again, ThreadbusError)


def test_a_log_cannot_flood_a_message_or_a_terminal() -> None:
    """Long lines are cut and control characters are escaped."""
    message = str(ServerStartError(1, ("x" * 10_000, "\x1b[31mred"), "/log"))

    assert len(message) < 1000
    assert "\x1b" not in message
