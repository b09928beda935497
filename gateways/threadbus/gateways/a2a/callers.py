"""Who calls, through which card; and who is asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from a2a.server.context import ServerCallContext
from a2a.utils.errors import InternalError, UnsupportedOperationError

from threadbus.bus import Bus, LivingAgent
from threadbus.schemas import AgentName

CALLER: Final = "threadbus.caller"
"""The key of a call's state that holds the :class:`Caller`."""

TRACEPARENT: Final = "traceparent"
"""The header, and the label of a super-task, that says in which trace it was asked."""

_TRACEPARENT: Final = re.compile(
    r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)
_FRESH_S: Final = 2.0
_PLANNER: Final = AgentName("planner")


class Caller(NamedTuple):
    """Who makes a request."""

    principal: str
    """For what belongs to somebody."""
    agent: AgentName
    """Under which name it is on the bus."""
    card: str
    """The agent whose card it uses; empty for that of the whole bus."""
    is_authenticated: bool = False
    traceparent: str = ""
    """The trace that it is in, as W3C has it; empty where it names none."""
    is_old: bool = False
    """Whether it speaks version 0.3."""


def traceparent_in(headers: Mapping[str, str]) -> str:
    """Return the trace that a request names; empty where it names none that can be."""
    found = headers.get(TRACEPARENT, "")
    return found if _TRACEPARENT.fullmatch(found) else ""


def caller_of(context: ServerCallContext) -> Caller:
    """Return who makes the request of *context*."""
    caller = context.state.get(CALLER)
    if not isinstance(caller, Caller):
        raise InternalError
    method: str = context.state.get("method", "")
    version: str = context.state.get("headers", {}).get("a2a-version", "")
    # Only there do names of methods have a slash.
    return caller._replace(is_old="/" in method or version.startswith("0."))


class Team(NamedTuple):
    """Who is asked a question, and who else may speak."""

    asked: list[AgentName]
    others: list[AgentName]


class Agents:
    """Who there is, read from the registry at most every two seconds."""

    def __init__(self, bus: Bus, hidden: Callable[[str], bool]) -> None:
        """Prepare.

        Args:
            bus: whose registry.
            hidden: says of a name that it is the gateway's own and no agent to ask.
        """
        self._bus = bus
        self._hidden = hidden
        self._known: dict[str, LivingAgent] = {}
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def all(self) -> dict[str, LivingAgent]:
        """Return every agent that can be asked, by name."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                self._known = {
                    agent.name: agent
                    for agent in await self._bus.registry.agents()
                    if not self._hidden(agent.name)
                }
                self._until = now + _FRESH_S
        return self._known

    async def find(self, name: str) -> LivingAgent | None:
        """Return one agent, also one that registered a moment ago."""
        found = (await self.all()).get(name)
        if found is None and name:
            self._until = 0.0
            found = (await self.all()).get(name)
        return found

    async def living(self) -> list[LivingAgent]:
        """Return those that have a living instance."""
        return [agent for agent in (await self.all()).values() if agent.is_living]

    async def team(self, card: str, chosen: Sequence[AgentName]) -> Team:
        """Return who is asked by a message.

        Args:
            card: the agent whose card is used; it is asked alone.
            chosen: the default team for a message to the whole bus, who is asked first. Without
                one it is the planner, or else the only living agent, with all who live.

        Raises:
            UnsupportedOperationError: there is nobody to ask.
        """
        if card:
            if await self.find(card) is None:
                raise UnsupportedOperationError(f"There is no agent {card} any more.")
            return Team([AgentName(card)], [])
        if chosen:
            return Team([chosen[0]], list(chosen[1:]))
        living = [agent.name for agent in await self.living()]
        if _PLANNER in living:
            return Team([_PLANNER], [name for name in living if name != _PLANNER])
        if len(living) == 1:
            return Team(living, [])
        raise UnsupportedOperationError(
            "Nobody plans for the whole bus now; use the card of one agent."
        )
