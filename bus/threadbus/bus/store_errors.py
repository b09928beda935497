"""What can go wrong with the registry and the object store.

BusError
├── RegistryError                   a registration was refused or has ended
│   ├── AgentNameTakenError         somebody living holds the name
│   └── AgentReplacedError          somebody took the name over
└── ArtifactError                   an artifact could not be stored or read
    ├── ArtifactNotStoredError      the server did not take the content
    ├── ArtifactNotFoundError       no content with that hash
    ├── ArtifactCorruptError        content that does not match its hash
    └── ArtifactTooLargeError       more bytes than one artifact may have
"""

from __future__ import annotations

from threadbus.bus.errors import BusError


class RegistryError(BusError):
    """A registration was refused or has ended."""


class AgentNameTakenError(RegistryError):
    """Somebody living holds the name."""

    def __init__(self, name: str, holder: str, host: str, pid: int) -> None:
        super().__init__(name, holder, host, pid)
        self.name = name
        self.holder = holder
        self.host = host
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"agent name {self.name!r} is held by {self.holder} (process {self.pid} on "
            f"{self.host}), which is living; stop it, choose another name, or use --takeover"
        )


class AgentReplacedError(RegistryError):
    """Somebody took the name over."""

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(name, holder)
        self.name = name
        self.holder = holder

    def __str__(self) -> str:
        return f"agent name {self.name!r} was taken over by {self.holder}; this one stops"


class ArtifactError(BusError):
    """An artifact could not be stored or read."""


class ArtifactNotStoredError(ArtifactError):
    """The server did not take the content."""

    def __init__(self, sha256: str, size: int, reason: str) -> None:
        super().__init__(sha256, size, reason)
        self.sha256 = sha256
        self.size = size
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"artifact {self.sha256} of {self.size:,} bytes was not stored ({self.reason}); "
            "nothing names it yet: put it again, or give JetStream more storage if it is full"
        )


class ArtifactNotFoundError(ArtifactError):
    """There is no content with that hash."""

    def __init__(self, sha256: str) -> None:
        super().__init__(sha256)
        self.sha256 = sha256

    def __str__(self) -> str:
        return f"no artifact with sha256 {self.sha256} in the object store"


class ArtifactCorruptError(ArtifactError):
    """The content does not match its hash."""

    def __init__(self, sha256: str, found: str) -> None:
        super().__init__(sha256, found)
        self.sha256 = sha256
        self.found = found

    def __str__(self) -> str:
        return (
            f"artifact {self.sha256} was changed or cut: its bytes hash to {self.found}; "
            "they are not used"
        )


class ArtifactTooLargeError(ArtifactError, ValueError):
    """The content has more bytes than one artifact may have."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the content has {self.size:,} bytes and one artifact may have {self.limit:,}: "
            "split it, or raise BUS_ARTIFACT_MAX_BYTES"
        )
