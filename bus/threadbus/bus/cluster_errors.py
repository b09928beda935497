"""What can go wrong with a cluster of one's own.

BusError
└── ClusterError                    a cluster could not be laid out, run or looked at
    ├── ClusterFolderError          the folder of the cluster cannot be used
    ├── ClusterCopyError            the command that copies a file to a node failed
    └── CertificatesError           no certificates could be made
"""

from __future__ import annotations

from threadbus.bus.errors import BusError
from threadbus.schemas import shorten


class ClusterError(BusError):
    """A cluster could not be laid out, run or looked at."""


class ClusterFolderError(ClusterError):
    """The folder of the cluster cannot be used."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"cluster folder {self.folder}: {shorten(self.reason, 400)}"


class ClusterCopyError(ClusterError):
    """The command that copies a file to a node failed; no server was told to reload."""

    def __init__(self, node: str, command: str, reason: str) -> None:
        super().__init__(node, command, reason)
        self.node = node
        self.command = command
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"could not copy to {self.node}: `{shorten(self.command, 200)}` "
            f"{shorten(self.reason, 400)}; no server was told to reload"
        )


class CertificatesError(ClusterError):
    """No certificates could be made."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot make certificates: {self.reason}"
