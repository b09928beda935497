"""What can go wrong with identities.

BusError
└── AccessError                     an identity could not be made, changed or used
    ├── AccessFolderError           the folder of the identities cannot be used
    ├── AccessConfigError           the server would not take the configuration
    ├── IdentityExistsError         the name is there already
    ├── UnknownIdentityError        no identity, or tenant, of that name
    ├── KeyFileError                a file that is no usable nkey
    └── ReloadError                 the running server did not take the configuration
"""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.bus.errors import BusError
from threadbus.schemas import shorten


class AccessError(BusError):
    """An identity could not be made, changed or used."""


class AccessFolderError(AccessError):
    """The folder of the identities cannot be used."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"access folder {self.folder}: {self.reason}"


class AccessConfigError(AccessError):
    """The server would not take the configuration; nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"nats-server would not take this configuration: {shorten(self.reason, 400)}"


class IdentityExistsError(AccessError):
    """The name is there already."""

    def __init__(self, name: str, tenant: str, role: str) -> None:
        super().__init__(name, tenant, role)
        self.name = name
        self.tenant = tenant
        self.role = role

    def __str__(self) -> str:
        if self.role == "tenant":
            return (
                f"the tenant {self.name!r} is there already: `bus auth add-agent NAME` adds "
                "somebody to it, `bus auth init --tenant OTHER` makes another"
            )
        return (
            f"{self.name!r} of tenant {self.tenant!r} is there already ({self.role}); "
            f"`bus auth rotate {self.name}` gives it a new key, `bus auth revoke {self.name}` "
            "takes it out"
        )


class UnknownIdentityError(AccessError):
    """There is no identity, or no tenant, of that name."""

    def __init__(self, what: str, name: str, known: Sequence[str]) -> None:
        super().__init__(what, name, tuple(known))
        self.what = what
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        known = ", ".join(self.known[:20]) or "none"
        return f"no {self.what} {shorten(self.name)!r}; there is {known}: see `bus auth list`"


class KeyFileError(AccessError, ValueError):
    """A file is no usable nkey; what it holds is never said."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"key file {shorten(self.path, 200)}: {self.reason}"


class ReloadError(AccessError):
    """The running server did not take the new configuration; the old one is in force."""

    def __init__(self, pid: int, reason: str) -> None:
        super().__init__(pid, reason)
        self.pid = pid
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"nats-server (process {self.pid}) did not reload: {shorten(self.reason, 400)}; "
            "the old configuration is in force, also for what was revoked: restart the server"
        )
