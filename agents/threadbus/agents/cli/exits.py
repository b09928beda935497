"""Exit codes: one table, and which error ends with which."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from threadbus.agents.cli.failures import (
    AgentLivingError,
    MonitorError,
    TaskLookupError,
    UsageError,
)
from threadbus.agents.errors import AgentError, AgentLoadError, InvalidSettingError
from threadbus.agents.evaluation import QuestionsError, RecordsError
from threadbus.agents.monitoring import MonitoringError
from threadbus.agents.teams.script import UnknownTeamError
from threadbus.bus import (
    AppendError,
    AppendTimeoutError,
    ArtifactNotFoundError,
    ArtifactTooLargeError,
    BusError,
    ConnectError,
    RegistryError,
    TaskNotFoundError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
    access_errors,
    backup_errors,
    cluster_errors,
    server_errors,
)
from threadbus.bus import InvalidSettingError as InvalidBusSettingError
from threadbus.schemas import SchemaError, ThreadbusError


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NO_SERVER = 4
    REFUSED = 5
    TIMEOUT = 124
    INTERRUPTED = 130


MEANINGS: Final = {
    ExitCode.OK: "It worked; of `ask` and `attach`: there is an answer.",
    ExitCode.FAILED: "It failed; the super-task ended without an answer; `doctor` found a problem.",
    ExitCode.USAGE: "A flag, an argument, a setting or a file cannot be used.",
    ExitCode.NOT_FOUND: "No such super-task (or several), thread, agent or artifact.",
    ExitCode.NO_SERVER: "No usable server: silent, too old, no JetStream, or lets you not in.",
    ExitCode.REFUSED: "The bus refused it: closed thread, not a participant, name taken, no room.",
    ExitCode.TIMEOUT: "Not in time; a super-task goes on all the same.",
    ExitCode.INTERRUPTED: "Ctrl-C; a super-task goes on all the same.",
}

# The first that matches counts: leaves before their roots.
_CODES: Final[list[tuple[type[ThreadbusError], ExitCode]]] = [
    (access_errors.UnknownIdentityError, ExitCode.NOT_FOUND),
    (access_errors.IdentityExistsError, ExitCode.REFUSED),
    (access_errors.AccessError, ExitCode.USAGE),
    (backup_errors.BackupIncompleteError, ExitCode.USAGE),
    (backup_errors.BackupDamagedError, ExitCode.USAGE),
    (backup_errors.BackupFolderError, ExitCode.USAGE),
    (backup_errors.RestoreRefusedError, ExitCode.REFUSED),
    (cluster_errors.ClusterFolderError, ExitCode.USAGE),
    (cluster_errors.CertificatesError, ExitCode.USAGE),
    (ConnectError, ExitCode.NO_SERVER),
    (TaskLookupError, ExitCode.NOT_FOUND),
    (AgentLivingError, ExitCode.REFUSED),
    (MonitorError, ExitCode.NO_SERVER),
    (TaskNotFoundError, ExitCode.NOT_FOUND),
    (ThreadNotFoundError, ExitCode.NOT_FOUND),
    (UnknownAgentError, ExitCode.NOT_FOUND),
    (ArtifactNotFoundError, ExitCode.NOT_FOUND),
    (UsageError, ExitCode.USAGE),
    (AgentLoadError, ExitCode.USAGE),
    (UnknownTeamError, ExitCode.USAGE),
    (QuestionsError, ExitCode.USAGE),
    (RecordsError, ExitCode.USAGE),
    (MonitoringError, ExitCode.USAGE),
    (InvalidSettingError, ExitCode.USAGE),
    (InvalidBusSettingError, ExitCode.USAGE),
    (server_errors.InvalidServerSettingError, ExitCode.USAGE),
    (SchemaError, ExitCode.USAGE),
    (AppendTimeoutError, ExitCode.TIMEOUT),
    (WaitTimeoutError, ExitCode.TIMEOUT),
    (AppendError, ExitCode.REFUSED),
    (RegistryError, ExitCode.REFUSED),
    (ArtifactTooLargeError, ExitCode.REFUSED),
    (BusError, ExitCode.FAILED),
    (AgentError, ExitCode.FAILED),
]


def exit_with(kind: type[ThreadbusError], code: ExitCode) -> None:
    """Say what errors of *kind* end a command with; for commands that are plugged in."""
    if (kind, code) not in _CODES:
        _CODES.insert(0, (kind, code))


def code_of(error: ThreadbusError) -> ExitCode:
    """Return the exit code that *error* ends a command with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)
