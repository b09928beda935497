"""Who there is, kept for a moment: names are resolved and tools are listed from it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from threadbus.bus import Bus, BusError, LivingAgent, SteadyLog, UnknownAgentError
from threadbus.gateways.names import find_agent, tool_name
from threadbus.schemas import AgentName

ASK_PREFIX: Final = "ask_"
MAX_ASK_TOOLS: Final = 100
"""Agents that have a tool of their own; the others are reached by the tool ``ask``."""

_FRESH_S: Final = 1.0
_LOOK_EVERY_S: Final = 2.0
_KNOWN_S: Final = 2 * _LOOK_EVERY_S
"""How long a name counts as registered that was seen: it is watched meanwhile."""

MAX_SCANS: Final = 4
"""Reads of the whole log at once, of all hosts together."""

_WORD: Final = re.compile(r"\w+")
_log: Final = SteadyLog("threadbus.gateways.mcp")


class Directory:
    """The agents of the bus, looked up at most once a second."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._agents: Sequence[LivingAgent] = ()
        self._names: frozenset[str] = frozenset()
        self._at = 0.0
        self._lock = asyncio.Lock()
        self.scans: Final = asyncio.Semaphore(MAX_SCANS)
        """Taken by whoever reads the whole log for a host. The server cuts a connection that is
        sent more than it can take in, and with it every host."""

    async def agents(self, *, fresh: bool = False) -> Sequence[LivingAgent]:
        """Return every registered agent.

        Raises:
            BusError: the registry could not be read.
        """
        if fresh or time.monotonic() - self._at > _FRESH_S:
            async with self._lock:
                if fresh or time.monotonic() - self._at > _FRESH_S:
                    self._agents = await self._bus.registry.agents()
                    self._names = frozenset(agent.name for agent in self._agents)
                    self._at = time.monotonic()
        return self._agents

    async def resolve(self, typed: str) -> AgentName:
        """Return the agent that is meant; a name that is not known yet is looked up afresh.

        Raises:
            UnknownAgentError, AmbiguousNameError: no agent, or no single one, is meant.
        """
        if typed in self._names and time.monotonic() - self._at <= _KNOWN_S:
            # Most names are used as they stand there; whoever is asked is looked up once more.
            return AgentName(typed)
        cards = [agent.record.card for agent in await self.agents()]
        try:
            return find_agent(typed, cards)
        except UnknownAgentError:
            cards = [agent.record.card for agent in await self.agents(fresh=True)]
            return find_agent(typed, cards)

    async def resolve_all(self, typed: Sequence[str]) -> list[AgentName]:
        """Return the agents that are meant, each once."""
        return list(dict.fromkeys([await self.resolve(name) for name in typed]))

    async def asked_by(self, tool: str, me: AgentName) -> LivingAgent | None:
        """Return the agent that a tool named ``ask_<agent>`` asks; None where there is none."""
        if not tool.startswith(ASK_PREFIX):
            return None
        for agent in await self.agents():
            if agent.name != me and tool_name(ASK_PREFIX, agent.name) == tool:
                return agent
        return None

    async def askable(self, me: AgentName) -> list[LivingAgent]:
        """Return the living agents that *me* has a tool for, by name."""
        agents = await self.agents(fresh=True)
        living = [agent for agent in agents if agent.is_living and agent.name != me]
        return living[:MAX_ASK_TOOLS]

    async def watch(self, on_tools: Callable[[], None], on_agents: Callable[[], None]) -> None:
        """Call back whenever who is living, or what is said of an agent, has changed.

        Never returns.
        """
        tools: object = None
        whole: object = None
        while True:
            try:
                agents = await self.agents(fresh=True)
            except (BusError, TimeoutError) as error:
                _log.warning("the registry does not answer, trying on", reason=str(error))
            else:
                now_tools = [agent.record.card for agent in agents if agent.is_living]
                now_whole = [
                    (agent.record.card, [(beat.state, beat.busy_with) for beat in agent.instances])
                    for agent in agents
                ]
                if tools is not None and now_tools != tools:
                    on_tools()
                if whole is not None and now_whole != whole:
                    on_agents()
                tools, whole = now_tools, now_whole
            await asyncio.sleep(_LOOK_EVERY_S)


def ranked(agents: Sequence[LivingAgent], query: str) -> list[LivingAgent]:
    """Return the agents whose card has words of *query*, those that fit best first.

    A word that few cards have counts more than one that all have; one in the name or in a skill
    counts twice. What is left equal goes by name, the living first.
    """
    cards = [(agent, _words(agent)) for agent in agents]
    wanted = set(_WORD.findall(query.casefold()))
    weights = {
        word: 1.0 / found
        for word in wanted
        if (found := sum(word in strong | weak for _, (strong, weak) in cards))
    }

    def score(strong: set[str], weak: set[str]) -> float:
        return sum(
            weight * (2 if word in strong else 1)
            for word, weight in weights.items()
            if word in strong or word in weak
        )

    scored = [(score(strong, weak), agent) for agent, (strong, weak) in cards]
    fitting = [(points, agent) for points, agent in scored if points > 0]
    fitting.sort(key=lambda one: (-one[0], not one[1].is_living, one[1].name))
    return [agent for _, agent in fitting]


def _words(agent: LivingAgent) -> tuple[set[str], set[str]]:
    card = agent.record.card
    strong = [card.name.replace("_", " ").replace("-", " "), card.display_name]
    for skill in card.skills:
        strong += [skill.name, *skill.tags]
    weak = [card.description]
    for skill in card.skills:
        weak += [skill.description, *skill.examples]
    return (
        set(_WORD.findall(" ".join(strong).casefold())),
        set(_WORD.findall(" ".join(weak).casefold())),
    )
