"""What can go wrong in the command itself.

AgentError
└── CommandError                the root of this package
    ├── UsageError              an argument that cannot be used
    ├── TaskLookupError         no super-task, or several, behind what was typed
    ├── AgentLivingError        an agent that is to be forgotten lives
    └── MonitorError            the monitoring page of the server cannot be read
"""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.agents.errors import AgentError
from threadbus.schemas import shorten


class CommandError(AgentError):
    """Something went wrong in the command itself."""


class UsageError(CommandError, ValueError):
    """An argument cannot be used."""

    def __init__(self, argument: str, value: str, reason: str) -> None:
        super().__init__(argument, value, reason)
        self.argument = argument
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        shown = f" {shorten(self.value)!r}" if self.value else ""
        return f"{self.argument}{shown}: {self.reason}"


class TaskLookupError(CommandError):
    """What was typed names no super-task, or more than one."""

    def __init__(self, typed: str, found: Sequence[str], near: Sequence[str]) -> None:
        super().__init__(typed, tuple(found), tuple(near))
        self.typed = typed
        self.found = tuple(found)
        """The super-tasks that it could mean."""
        self.near = tuple(near)
        """Where it means none: those that look most like it, or the newest."""

    def __str__(self) -> str:
        typed = shorten(self.typed, 64)
        if self.found:
            return (
                f"{typed!r} is the beginning of {len(self.found)} super-tasks; give more digits: "
                + ", ".join(self.found[:5])
            )
        if self.near:
            return f"no super-task {typed!r}; did you mean {' or '.join(self.near)}? " + _LIST
        return f"no super-task {typed!r}: there is none on this bus yet; open one with `bus ask`"


class AgentLivingError(CommandError):
    """An agent that is to be forgotten has a heartbeat."""

    def __init__(self, agent: str, instances: int) -> None:
        super().__init__(agent, instances)
        self.agent = agent
        self.instances = instances

    def __str__(self) -> str:
        return (
            f"{self.agent} is living ({self.instances} with a heartbeat): stop it first; nothing "
            "was taken away"
        )


class MonitorError(CommandError):
    """The monitoring page of the server cannot be read."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"no monitoring page of a nats-server at {shorten(self.url)}: {self.reason}"


_LIST = "`bus tasks` lists them"
