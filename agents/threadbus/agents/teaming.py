"""Let a model find a team: it searches the registry, a bounded number of times, and decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.agents.discovery import FoundAgent, Ranker, find_agents
from threadbus.agents.errors import GiveUpError, InvalidSettingError, ToolRoundsExceededError
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, make_tool
from threadbus.bus import Job
from threadbus.schemas import MAX_TRIGGERS

MAX_DISCOVERY_ROUNDS: Final = 10
"""Searches after which the team must be decided on."""

_SHOWN: Final = 5
_PROMPT: Final = """\
You put a team together for a goal. Search the registry with find_agents, by what is to be done and
not by names; each search shows the best agents and why. Then call team_up once, with those that are
needed and the task of each. You have {rounds} searches.
"""


class TeamFormingError(GiveUpError):
    """The model decided on no team."""

    def __init__(self, rounds: int, problem: str) -> None:
        super().__init__(f"no team after {rounds} discovery rounds: {problem}")
        self.args = (rounds, problem)
        self.rounds = rounds
        self.problem = problem


class Query(msgspec.Struct):
    """What find_agents takes."""

    query: str


class Part(msgspec.Struct):
    """One member and its task."""

    agent: str
    task: str


class Team(msgspec.Struct):
    """What team_up takes."""

    members: list[Part]


class _Forming:
    def __init__(self, mention: Mention, rounds: int, members: int, ranker: Ranker | None) -> None:
        self._mention = mention
        self._rounds = rounds
        self._members = members
        self._ranker = ranker
        self._known: dict[str, FoundAgent] = {}
        self.used = 0
        self.problem = "the model did not call team_up"
        self.jobs: list[Job] = []

    async def find(self, asked: Query) -> str:
        """Search once, if a search is left."""
        if self.used >= self._rounds:
            return f"No search is left. Call team_up now, with some of: {', '.join(self._known)}."
        self.used += 1
        await self._mention.progress(f"looking for: {asked.query[:120]}")
        try:
            found = await find_agents(self._mention.bus, asked.query, _SHOWN, ranker=self._ranker)
        except InvalidSettingError as error:
            return str(error)
        others = [agent for agent in found if agent.name != self._mention.agent]
        self._known |= {agent.name: agent for agent in others}
        if not others:
            return "Nobody living fits. Try other words."
        return "\n".join(map(_line, others))

    async def team_up(self, team: Team) -> str:
        """Decide, if everybody was found and nobody is too many."""
        names = list(dict.fromkeys(part.agent for part in team.members))
        strangers = [name for name in names if name not in self._known]
        if not names or len(names) > self._members:
            self.problem = f"team_up named {len(names)} members, 1 to {self._members} are possible"
        elif len(team.members) > MAX_TRIGGERS:
            self.problem = f"team_up gave {len(team.members)} tasks, {MAX_TRIGGERS} are possible"
        elif strangers:
            known = ", ".join(self._known) or "nobody yet"
            self.problem = f"{', '.join(strangers)} did not come out of a search; found: {known}"
        else:
            self.jobs = [Job(part.agent, part.task, title=part.task[:80]) for part in team.members]
            return f"The team stands: {', '.join(names)}."
        return self.problem


async def form_team(
    mention: Mention,
    goal: str,
    *,
    max_rounds: int = MAX_DISCOVERY_ROUNDS,
    max_members: int = 8,
    ranker: Ranker | None = None,
) -> Sequence[Job]:
    """Let the model of this agent find a team for a goal, and say who does what.

    Args:
        mention: what makes the team necessary; the model calls are on record below it.
        goal: what the team is to reach.
        max_rounds: searches that it may make, 1 to 10.
        max_members: members that it may choose.
        ranker: BM25 when absent.

    Returns:
        One job for each task; the agents are living and were found by the model.

    Raises:
        TeamFormingError: it did not decide after its searches, or on agents that it had not found.
        InvalidSettingError: *max_rounds* is out of bounds.
        ModelError, NoModelError: see :meth:`Thinking.run`.
    """
    if not 1 <= max_rounds <= MAX_DISCOVERY_ROUNDS:
        raise InvalidSettingError(
            "max_rounds", str(max_rounds), f"it is a number from 1 to {MAX_DISCOVERY_ROUNDS}"
        )
    forming = _Forming(mention, max_rounds, max_members, ranker)
    tools = {
        "find_agents": make_tool(
            "find_agents", "Search the living agents by what is to be done.", Query, forming.find
        ),
        "team_up": make_tool(
            "team_up", "Decide on the team and give each its task.", Team, forming.team_up
        ),
    }
    messages = [
        ChatMessage.system(_PROMPT.format(rounds=max_rounds)),
        ChatMessage.user(f"The goal:\n{goal}"),
    ]
    try:
        # One more for the decision, one to learn that no search is left, one for the last word.
        await mention.thinking.run(messages, tools, max_rounds=max_rounds + 3)
    except ToolRoundsExceededError as error:
        if not forming.jobs:
            raise TeamFormingError(forming.used, forming.problem) from error
    if not forming.jobs:
        raise TeamFormingError(forming.used, forming.problem)
    return forming.jobs


def _line(agent: FoundAgent) -> str:
    reasons = ", ".join(term for match in agent.why for term in match.terms)
    return f"{agent.name} (score {agent.score:.2f}; {reasons}): {agent.card.description[:200]}"
