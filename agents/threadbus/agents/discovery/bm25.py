"""BM25 over the cards: words, reduced to their stems, that are rare among the agents count most."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from threadbus.agents.discovery.errors import load
from threadbus.agents.discovery.ranking import Match, Ranked, fields_of
from threadbus.schemas import AgentCard

_EXTRA: Final = "discovery"
_WORD: Final = re.compile(r"[^\W_]+")
_STOPWORDS_TEXT: Final = """
a about after all also am an and any are as at be because been before being but by can could did
do does doing each else for from had has have having he her here his how i if in into is it its
itself just me more most my need needs no not now of on one only or other our out over own please
s same she should so some such t than that the their them then there these they this those through
to too under until up us very want wants was we were what when where which while who whom why will
with would you your
"""
_STOPWORDS: Final = frozenset(_STOPWORDS_TEXT.split())


class _Index:
    """The cards of one registry, indexed; made anew when a card changes."""

    def __init__(self, cards: Sequence[AgentCard]) -> None:
        bm25s = load("bm25s", _EXTRA)
        self.cards = tuple(cards)
        self._stemmer: Any = load("Stemmer", _EXTRA).Stemmer("english")
        self.fields = [
            [(skill, frozenset(stem for _, stem in self.stems(text))) for skill, text in fields]
            for fields in map(fields_of, cards)
        ]
        corpus = [
            [stem for _, text in fields_of(card) for _, stem in self.stems(text)] for card in cards
        ]
        self._known = {stem for words in corpus for stem in words}
        self._model: Any = bm25s.BM25()
        if self._known:
            self._model.index(corpus, show_progress=False)

    def stems(self, text: str) -> list[tuple[str, str]]:
        """Return the words of a text that tell something, each with its stem."""
        words = [word for word in _WORD.findall(text.casefold()) if word not in _STOPWORDS]
        return list(zip(words, self._stemmer.stemWords(words), strict=True))

    def rank(self, query: str) -> list[Ranked]:
        """Return the cards that share a word with *query*, the best first."""
        words = {stem: word for word, stem in self.stems(query) if stem in self._known}
        if not words:
            return []
        scores: Sequence[float] = self._model.get_scores(list(words)).tolist()
        found = [
            Ranked(card, score, self._why(number, words))
            for number, (card, score) in enumerate(zip(self.cards, scores, strict=True))
            if score > 0
        ]
        return sorted(found, key=lambda ranked: (-ranked.score, ranked.card.name))

    def _why(self, number: int, words: dict[str, str]) -> tuple[Match, ...]:
        matches = [
            Match(skill=skill, terms=tuple(words[stem] for stem in words if stem in stems))
            for skill, stems in self.fields[number]
        ]
        return tuple(
            sorted((match for match in matches if match.terms), key=lambda one: -len(one.terms))
        )


class Bm25Ranker:
    """Ranks by the words that query and card share (Okapi BM25, by bm25s)."""

    def __init__(self) -> None:
        self._index: _Index | None = None

    async def rank(self, query: str, cards: Sequence[AgentCard]) -> Sequence[Ranked]:
        """Return the cards that share a word with *query*, the best first.

        Raises:
            MissingPackageError: the extra ``discovery`` is not installed.

        Cancellation: safe; the index is finished all the same.
        """
        return await asyncio.to_thread(self._rank, query, tuple(cards))

    def _rank(self, query: str, cards: tuple[AgentCard, ...]) -> list[Ranked]:
        index = self._index
        if index is None or index.cards != cards:
            index = self._index = _Index(cards)
        return index.rank(query)
