"""What a ranker is given, what it returns, and the texts of a card that it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from threadbus.schemas import AgentCard

MAX_QUERY_CHARS = 4000
"""Characters of a query; what is longer is cut, since the first words say what is wanted."""

_MAX_FIELD_CHARS = 4000


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a card something of the query was found."""

    skill: str = ""
    """The id of the skill; empty for the name and description of the agent."""
    terms: tuple[str, ...] = ()
    """The words of the query that stand there."""
    similarity: float | None = None
    """How near the meaning is, from -1 to 1, where a ranker compares meanings."""


class Ranked(msgspec.Struct, frozen=True):
    """How well one card answers a query."""

    card: AgentCard
    score: float
    why: tuple[Match, ...] = ()


class FoundAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that was found."""

    name: str
    score: float
    """Comparable within one search by one ranker only."""
    why: tuple[Match, ...]
    living: bool
    card: AgentCard


class Ranker(Protocol):
    """Ranks cards by how well they answer a query."""

    async def rank(self, query: str, cards: Sequence[AgentCard]) -> Sequence[Ranked]:
        """Return those that answer *query* at all, the best first.

        Raises:
            DiscoveryError: they cannot be ranked.

        Cancellation: safe.
        """
        ...


def fields_of(card: AgentCard) -> list[tuple[str, str]]:
    """Return the texts of a card: the id of a skill, or nothing for the agent itself, and words."""
    own = f"{card.name} {card.display_name} {card.description}"
    fields = [("", own[:_MAX_FIELD_CHARS])]
    for skill in card.skills:
        words = [skill.name, skill.description, *skill.tags, *skill.examples]
        fields.append((skill.id, " ".join(words)[:_MAX_FIELD_CHARS]))
    return fields
