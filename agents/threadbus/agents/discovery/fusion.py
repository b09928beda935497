"""Several rankers as one: what stands high with any of them stands high."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadbus.agents.discovery.ranking import Match, Ranked, Ranker
from threadbus.schemas import AgentCard

_K: Final = 60
"""How little the first places count more than the next; the usual value."""


class FusedRanker:
    """Joins rankings by the places (reciprocal rank fusion), since the scores do not compare."""

    def __init__(self, rankers: Sequence[Ranker]) -> None:
        self._rankers = tuple(rankers)

    async def rank(self, query: str, cards: Sequence[AgentCard]) -> Sequence[Ranked]:
        """Return the cards that any ranker found, the best first.

        Raises:
            DiscoveryError: one of the rankers cannot rank.

        Cancellation: safe.
        """
        scores: dict[str, float] = {}
        why: dict[str, tuple[Match, ...]] = {}
        known: dict[str, AgentCard] = {}
        for ranker in self._rankers:
            for place, ranked in enumerate(await ranker.rank(query, cards), start=1):
                name = ranked.card.name
                known[name] = ranked.card
                scores[name] = scores.get(name, 0.0) + 1 / (_K + place)
                why[name] = (*why.get(name, ()), *ranked.why)
        order = sorted(scores, key=lambda name: (-scores[name], name))
        return [Ranked(known[name], scores[name], why[name]) for name in order]
