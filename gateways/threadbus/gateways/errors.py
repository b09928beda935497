"""What can go wrong in a gateway.

ThreadbusError                  the root of every error of this project
└── GatewayError                a gateway cannot do what was asked of it
    ├── TokensFileError         the file with the tokens cannot be used
    ├── AmbiguousNameError      a name that fits several agents
    ├── ListenError             an address cannot be listened on
    ├── ServeError              the web server could not start, or ended by itself
    ├── InvalidOptionError      an option of a gateway that cannot be used
    ├── BadArgumentError        an argument of a call that cannot be used
    ├── InvalidCursorError      a cursor that no result gave
    ├── InvalidUriError         a resource that does not exist
    ├── UnknownToolError        a tool that does not exist
    ├── TooManyCallsError       one agent has more calls running than it may
    ├── TooManySubscriptionsError  one agent is told of more resources than it may
    ├── MissingExtraError       what an extra installs is not there
    ├── RemoteServerError       a foreign MCP server cannot do what was asked
    ├── StoppingError           the gateway stops while a call waits
    ├── ForeignPartError        a part of a foreign message that cannot be taken
    ├── AddressRefusedError     an address that nothing may be sent to
    │   └── AddressUnknownError one whose name cannot be resolved now
    ├── RemoteError             a remote agent refuses, or is not to be reached
    └── SealError               a sealed secret that cannot be opened, or a key that cannot be used
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
        if not self.value:
            return f"{self.option}: {self.allowed}"
        return f"{self.option} '{shorten(self.value)}' cannot be used: {self.allowed}"


class BadArgumentError(GatewayError, ValueError):
    """An argument of a call cannot be used."""

    def __init__(self, argument: str, reason: str, way_out: str) -> None:
        super().__init__(argument, reason, way_out)
        self.argument = argument
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.argument}: {self.reason}; {self.way_out}"


class InvalidCursorError(GatewayError, ValueError):
    """A cursor is not one that a result gave to this agent."""

    def __init__(self, cursor: str) -> None:
        super().__init__(cursor)
        self.cursor = cursor

    def __str__(self) -> str:
        return (
            f"cursor {shorten(self.cursor)!r} is not one that a result of wait_for_mentions gave "
            "you: copy it exactly, or leave it out to get again what is not acknowledged"
        )


class InvalidUriError(GatewayError, ValueError):
    """No resource has such a name."""

    def __init__(self, uri: str, forms: Sequence[str]) -> None:
        super().__init__(uri, tuple(forms))
        self.uri = uri
        self.forms = tuple(forms)

    def __str__(self) -> str:
        return f"no resource {shorten(self.uri)!r}; they are {', '.join(self.forms)}"


class UnknownToolError(GatewayError):
    """There is no such tool."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        super().__init__(name, tuple(nearest))
        self.name = name
        self.nearest = tuple(nearest)

    def __str__(self) -> str:
        near = f"did you mean {' or '.join(self.nearest)}? " if self.nearest else ""
        return f"no tool {shorten(self.name)!r}; {near}tools/list names them all"


class TooManyCallsError(GatewayError):
    """One agent has more calls running than it may."""

    def __init__(self, agent: str, limit: int) -> None:
        super().__init__(agent, limit)
        self.agent = agent
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.agent} has {self.limit} calls running, which is the limit: wait until one "
            "has ended"
        )


class StoppingError(GatewayError):
    """The gateway stops while a call waits."""

    def __str__(self) -> str:
        return "the gateway is stopping; nothing is lost, make the call again in a moment"


class TooManySubscriptionsError(GatewayError):
    """One agent is subscribed to more resources than it may be."""

    def __init__(self, agent: str, limit: int) -> None:
        super().__init__(agent, limit)
        self.agent = agent
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.agent} is subscribed to {self.limit} resources, which is the limit: "
            "unsubscribe from those that are of no interest any more"
        )


class MissingExtraError(GatewayError):
    """A gateway needs libraries that are not installed."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(extra, module)
        self.extra = extra
        self.module = module

    def __str__(self) -> str:
        return (
            f"this gateway needs the module {self.module!r}, which is not installed; "
            f"`pip install 'threadbus[{self.extra}]'` installs what it needs"
        )


class ForeignPartError(GatewayError, ValueError):
    """A part of a foreign message cannot be taken."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"{shorten(self.what)} cannot be taken: {shorten(self.reason, 200)}"


class AddressRefusedError(GatewayError, ValueError):
    """Nothing may be sent to an address."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"nothing is sent to '{shorten(self.url)}': {self.reason}"


class AddressUnknownError(AddressRefusedError):
    """The name in an address cannot be resolved now."""


class RemoteError(GatewayError):
    """A remote agent refuses, or is not to be reached."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"the remote agent at '{shorten(self.url)}': {shorten(self.reason, 300)}"


class SealError(GatewayError):
    """A sealed secret cannot be opened, or the key for it cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the key {self.path}: {self.reason}; "
            "every gateway of one bus needs the same file of 32 bytes, for its owner only"
        )


class RemoteServerError(GatewayError):
    """A foreign server cannot do what was asked of it."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason)
        self.server = server
        self.reason = reason

    def __str__(self) -> str:
        return f"{shorten(self.server)}: {self.reason}"
