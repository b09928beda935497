"""How well agents are found: Recall@1, @5, @10 and MRR over a generated registry.

    python -m benchmarks.discovery [--local] [--json FILE]

The registry: one agent for each pair of a capability and a field, 384 in all, with a description,
a skill, and one more whose words are those of another agent. The judgement: exactly the agent of
the pair is right; one of the same capability in another field is wrong. Regular team formation asks
within the words of the whole goal, which names other roles of the team too; nested team formation
asks for one role alone, as the lead of a sub-team does. The split ``same words`` shares words with
the right card; the split ``held out`` shares no stem with it, which is checked and printed, so
words alone cannot solve it. Whatever a ranker leaves out counts as not found.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.discovery_words import CAPABILITIES, FIELDS, Words
from threadbus.agents import Bm25Ranker, EmbeddingRanker, FusedRanker, LocalEmbedder, Ranker
from threadbus.agents.discovery import DiscoveryError, Embedder, fields_of
from threadbus.schemas import AgentCard, Skill

PAPER: Final = {
    "regular": {"recall_1": 41.4, "recall_10": 64.9},
    "nested": {"recall_1": 59.7, "recall_10": 81.8},
}
"""Per cent, from the paper on the Internet of Agents; its data set was not published."""

_SEED: Final = 20261130
_QUERIES: Final = 200


class Query(msgspec.Struct, frozen=True):
    """What is asked, and the one agent that is right."""

    text: str
    right: str
    kind: str
    split: str


class Measured(msgspec.Struct, frozen=True):
    """How well one ranker did on one kind and split; per cent."""

    ranker: str
    kind: str
    split: str
    queries: int
    recall_1: float
    recall_5: float
    recall_10: float
    mrr: float


class Once:
    """Vectors that are computed once, all together: one by one takes far longer."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Sequence[float]] = {}

    async def fill(self, texts: Sequence[str]) -> None:
        """Compute the vectors of all texts."""
        for text, vector in zip(texts, await self._embedder.embed(texts), strict=True):
            self._known[text] = vector

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return those of some of them."""
        return [self._known[text] for text in texts]


def name_of(capability: int, field: int) -> str:
    """Return the name of the agent of a pair; it tells nothing."""
    return f"agent-{capability:02d}{field:02d}"


def registry() -> list[AgentCard]:
    """Return the cards, the same each time."""
    chance = random.Random(_SEED)  # noqa: S311 - repeatable, not secret
    cards: list[AgentCard] = []
    for number, capability in enumerate(CAPABILITIES):
        for other, field in enumerate(FIELDS):
            beside = chance.choice(CAPABILITIES)
            verb = capability.card.split()[0]
            cards.append(
                AgentCard(
                    name=name_of(number, other),
                    description=f"Helps {field.card}; can {capability.card}.",
                    skills=(
                        Skill(
                            id="main",
                            name=f"{capability.card} for {field.card}",
                            tags=(verb, field.card.split()[0]),
                            examples=(f"Please {capability.card} for {field.card}",),
                        ),
                        # Everybody also names a thing that others do better.
                        Skill(id="side", name=f"Hands over when asked to {beside.card}"),
                    ),
                )
            )
    return cards


def queries() -> list[Query]:
    """Return the queries of both kinds and both splits, the same each time."""
    chance = random.Random(_SEED + 1)  # noqa: S311
    found: list[Query] = []
    pairs = [(one, two) for one in range(len(CAPABILITIES)) for two in range(len(FIELDS))]
    for split in ("same words", "held out"):
        for kind in ("regular", "nested"):
            for capability, field in chance.sample(pairs, _QUERIES):
                what, where = CAPABILITIES[capability], FIELDS[field]
                others = chance.sample([w for w in CAPABILITIES if w is not what], 2)
                text = _text(kind, split, what, where, others)
                found.append(Query(text, name_of(capability, field), kind, split))
    return found


def _text(kind: str, split: str, what: Words, where: Words, others: Sequence[Words]) -> str:
    def said(words: Words) -> str:
        return words.same if split == "same words" else words.other

    role = f"{said(what)} for {said(where)}"
    if kind == "nested":
        return f"Who can {role}?"
    rest = " and ".join(said(words) for words in others)
    return f"We have a goal: {said(where)} should do better. Somebody has to {role}. Others {rest}."


async def measure(name: str, ranker: Ranker, asked: Sequence[Query]) -> list[Measured]:
    """Return how well a ranker does on each kind and split."""
    cards = registry()
    places: dict[tuple[str, str], list[int | None]] = {}
    for query in asked:
        ranked = await ranker.rank(query.text, cards)
        names = [one.card.name for one in ranked]
        place = names.index(query.right) + 1 if query.right in names else None
        places.setdefault((query.kind, query.split), []).append(place)
    return [
        Measured(
            name, kind, split, len(of), _recall(of, 1), _recall(of, 5), _recall(of, 10), _mrr(of)
        )
        for (kind, split), of in places.items()
    ]


def _recall(places: Sequence[int | None], depth: int) -> float:
    return 100 * sum(place is not None and place <= depth for place in places) / len(places)


def _mrr(places: Sequence[int | None]) -> float:
    return 100 * sum(0.0 if place is None else 1 / place for place in places) / len(places)


async def shared_words(asked: Sequence[Query]) -> dict[str, int]:
    """Count, for each split, the queries that share a stem with the right card."""
    cards = {card.name: card for card in registry()}
    found: dict[str, int] = {}
    for query in asked:
        # The card without its side skill, whose words are those of somebody else.
        own = msgspec.structs.replace(cards[query.right], skills=cards[query.right].skills[:1])
        hits = await Bm25Ranker().rank(query.text, [own])
        found[query.split] = found.get(query.split, 0) + bool(hits)
    return found


def show(measured: Sequence[Measured]) -> None:
    """Print the table as Markdown, with the figures of the paper beside it."""
    print("| ranker | team formation | split | Recall@1 | Recall@5 | Recall@10 | MRR |")
    print("|---|---|---|---|---|---|---|")
    for one in measured:
        cells = [one.recall_1, one.recall_5, one.recall_10, one.mrr]
        figures = " | ".join(f"{cell:.1f} %" for cell in cells)
        print(f"| {one.ranker} | {one.kind} | {one.split} | {figures} |")
    for kind, of in PAPER.items():
        mrr = "50.1 %" if kind == "regular" else "-"
        first, tenth = of["recall_1"], of["recall_10"]
        print(f"| the paper | {kind} | its own | {first} % | - | {tenth} % | {mrr} |")


async def run(*, local: bool) -> list[Measured]:
    """Measure BM25, and with *local* the model on this machine and both together."""
    asked = queries()
    rankers: dict[str, Ranker] = {"BM25": Bm25Ranker()}
    if local:
        texts = {text for card in registry() for _, text in fields_of(card)}
        once = Once(LocalEmbedder())
        await once.fill([*texts, *(query.text for query in asked)])
        meaning = EmbeddingRanker(once)
        rankers["all-MiniLM-L6-v2"] = meaning
        rankers["both, fused"] = FusedRanker([Bm25Ranker(), meaning])
    found: list[Measured] = []
    for name, ranker in rankers.items():
        found += await measure(name, ranker, asked)
    for split, count in (await shared_words(asked)).items():
        of = sum(query.split == split for query in asked)
        print(f"{split}: {count} of {of} queries share a stem with the right card")
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--local", action="store_true", help="embeddings on this machine too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    try:
        measured = asyncio.run(run(local=given.local))
    except DiscoveryError as error:
        parser.exit(1, f"{error}\n")
    show(measured)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")


if __name__ == "__main__":
    main()
