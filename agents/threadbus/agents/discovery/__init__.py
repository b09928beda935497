"""Find agents by what they can do: ranked, with a score and why.

The default ranker is BM25 (extra ``discovery``); embeddings from any OpenAI-compatible endpoint,
or from a small local model, rank by meaning where the words differ.
"""

from threadbus.agents.discovery.bm25 import Bm25Ranker
from threadbus.agents.discovery.embedding import (
    Embedder,
    EmbeddingRanker,
    LocalEmbedder,
    OpenAIEmbedder,
)
from threadbus.agents.discovery.errors import DiscoveryError, EmbeddingError, MissingPackageError
from threadbus.agents.discovery.finding import MAX_FOUND, find_agents
from threadbus.agents.discovery.fusion import FusedRanker
from threadbus.agents.discovery.ranking import FoundAgent, Match, Ranked, Ranker, fields_of

__all__ = [
    "MAX_FOUND",
    "Bm25Ranker",
    "DiscoveryError",
    "Embedder",
    "EmbeddingError",
    "EmbeddingRanker",
    "FoundAgent",
    "FusedRanker",
    "LocalEmbedder",
    "Match",
    "MissingPackageError",
    "OpenAIEmbedder",
    "Ranked",
    "Ranker",
    "fields_of",
    "find_agents",
]
