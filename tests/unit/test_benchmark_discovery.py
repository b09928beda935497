"""The discovery benchmark is what its page says: repeatable, and not solved by shared words."""

from __future__ import annotations

from benchmarks.discovery import Measured, measure, queries, registry, shared_words
from threadbus.agents import Bm25Ranker


async def test_the_registry_and_the_queries_are_the_same_each_time() -> None:
    """Several hundred agents, each right for some query, and both splits of both kinds."""
    cards, asked = registry(), queries()

    assert (len(cards), len({card.name for card in cards})) == (384, 384)
    assert (registry(), queries()) == (cards, asked)
    assert {query.right for query in asked} <= {card.name for card in cards}
    assert len({(query.kind, query.split) for query in asked}) == 4


async def test_words_alone_do_not_solve_the_held_out_split() -> None:
    """No held-out query shares a stem with the right card; every other one does."""
    asked = queries()
    shared = await shared_words(asked)

    assert shared["held out"] == 0
    assert shared["same words"] == sum(query.split == "same words" for query in asked)


async def test_the_figures_come_from_the_places() -> None:
    """Recall grows with the depth, and asking for one role alone finds more."""
    found = {(one.kind, one.split): one for one in await measure("b", Bm25Ranker(), queries())}

    def recalls(one: Measured) -> list[float]:
        return [one.recall_1, one.recall_5, one.recall_10]

    for one in found.values():
        assert recalls(one) == sorted(recalls(one))
        assert one.recall_1 <= one.mrr <= 100
    regular, nested = found["regular", "same words"], found["nested", "same words"]
    assert nested.recall_1 > regular.recall_1 > found["regular", "held out"].recall_1
