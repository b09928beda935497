"""Find agents in the registry of a bus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadbus.agents.discovery.bm25 import Bm25Ranker
from threadbus.agents.discovery.ranking import MAX_QUERY_CHARS, FoundAgent, Ranked, Ranker
from threadbus.agents.errors import InvalidSettingError
from threadbus.bus import Bus

MAX_FOUND: Final = 100
"""Agents that one search returns at most."""

_DEFAULT: Final = Bm25Ranker()


async def find_agents(
    bus: Bus,
    query: str,
    limit: int = 10,
    living_only: bool = True,
    *,
    ranker: Ranker | None = None,
) -> list[FoundAgent]:
    """Return the registered agents that can best do what *query* says, the best first.

    Args:
        bus: whose registry.
        query: what is to be done, in words; the first 4,000 characters count.
        limit: how many at most, 1 to 100.
        living_only: only those with a heartbeat; the others may come back.
        ranker: BM25 when absent.

    Returns:
        The agents with a score and why; none where nothing fits.

    Raises:
        InvalidSettingError: *query* is empty or *limit* out of bounds.
        DiscoveryError: the ranker cannot rank, or what it needs is not installed.
        ReadError: the registry cannot be read.

    Cancellation: safe.
    """
    wanted = query.strip()[:MAX_QUERY_CHARS]
    if not wanted:
        raise InvalidSettingError("query", "", "say in words what is to be done")
    if not 1 <= limit <= MAX_FOUND:
        raise InvalidSettingError("limit", str(limit), f"it is a number from 1 to {MAX_FOUND}")
    agents = {agent.name: agent for agent in await bus.registry.agents()}
    cards = [agent.record.card for agent in agents.values() if agent.is_living or not living_only]
    chosen: Ranker = _DEFAULT if ranker is None else ranker
    ranked: Sequence[Ranked] = await chosen.rank(wanted, cards) if cards else ()
    living = {name for name, agent in agents.items() if agent.is_living}
    return [
        FoundAgent(
            name=one.card.name,
            score=one.score,
            why=one.why,
            living=one.card.name in living,
            card=one.card,
        )
        for one in ranked[:limit]
    ]
