"""What can go wrong in a gateway.

ThreadbusError                  the root of every error of this project
└── GatewayError                a gateway cannot do what was asked of it
    ├── TokensFileError         the file with the tokens cannot be used
    ├── AmbiguousNameError      a name that fits several agents
    ├── ListenError             an address cannot be listened on
    ├── ServeError              the web server could not start, or ended by itself
    └── InvalidOptionError      an option of a gateway that cannot be used
"""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.schemas import ThreadbusError, shorten


class GatewayError(ThreadbusError):
    """A gateway cannot do what was asked of it."""


class TokensFileError(GatewayError, ValueError):
    """The file that says which token is which agent cannot be used.

    Attributes:
        path: the file.
        reason: what is wrong with it; never holds a token.
        way_out: what to do.
    """

    def __init__(self, path: str, reason: str, way_out: str) -> None:
        super().__init__(path, reason, way_out)
        self.path = path
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"the tokens file {self.path}: {self.reason}; {self.way_out}"


class AmbiguousNameError(GatewayError, ValueError):
    """A name from outside fits several agents.

    Attributes:
        name: what was given.
        found: the agents that it fits.
    """

    def __init__(self, name: str, found: Sequence[str]) -> None:
        super().__init__(name, tuple(found))
        self.name = name
        self.found = tuple(found)

    def __str__(self) -> str:
        shown = ", ".join(self.found[:5])
        return f"{shorten(self.name)!r} fits several agents: {shown}; use one of these names"


class ListenError(GatewayError):
    """An address cannot be listened on."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"cannot listen on '{shorten(self.address)}': {shorten(self.reason)}; "
            "stop what listens there, or name another port (0 takes a free one)"
        )


class ServeError(GatewayError):
    """The web server could not start, or ended by itself."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"the web server on '{shorten(self.address)}' ended: {shorten(self.reason, 200)}"


class InvalidOptionError(GatewayError, ValueError):
    """An option of a gateway cannot be used."""

    def __init__(self, option: str, value: str, allowed: str) -> None:
        super().__init__(option, value, allowed)
        self.option = option
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.option} '{shorten(self.value)}' cannot be used: {self.allowed}"
