"""``bus find``: which agents can do what is wanted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results import Found
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import one_line
from threadbus.agents.discovery import (
    MAX_FOUND,
    Bm25Ranker,
    EmbeddingRanker,
    FoundAgent,
    FusedRanker,
    LocalEmbedder,
    OpenAIEmbedder,
    Ranker,
    find_agents,
)


class By(StrEnum):
    """What agents are ranked by."""

    BM25 = "bm25"
    EMBEDDINGS = "embeddings"
    LOCAL = "local"
    FUSED = "fused"


@command("find", panel="Look")
async def find(
    shell: Shell,
    query: Annotated[str, typer.Argument(help="What is to be done, in words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 10,
    all_: Annotated[bool, typer.Option("--all", help="Also those without a heartbeat.")] = False,
    by: Annotated[
        By,
        typer.Option(
            help="bm25: shared words. embeddings: meaning, by BUS_EMBEDDING_MODEL at "
            "OPENAI_BASE_URL. local: meaning, by a model on this machine. fused: bm25 and "
            "embeddings."
        ),
    ] = By.BM25,
) -> None:
    """Find agents by what they can do, the best first, with a score and why."""
    if not 1 <= limit <= MAX_FOUND:
        raise UsageError("--limit", str(limit), f"1 to {MAX_FOUND}")
    if not query.strip():
        raise UsageError("QUERY", query, "what is to be done, in words")
    ranker = _ranker(by)
    async with shell.bus() as bus:
        found = await find_agents(bus, query, limit, not all_, ranker=ranker)
    if shell.json:
        shell.result(Found(query=query, ranker=by.value, agents=found))
        return
    if not found:
        shell.note("no agent fits; other words may, or --all for those without a heartbeat", "dim")
        return
    shown = table("agent", "score", "why", "what it can do", right=("score",))
    for agent in found:
        shown.add_row(
            cell(agent.name, "bold" if agent.living else "dim"),
            cell(f"{agent.score:.2f}"),
            cell(_why(agent)),
            cell(one_line(agent.card.description or agent.card.title, 80)),
        )
    shell.table(shown)


def _ranker(by: By) -> Ranker:
    if by is By.EMBEDDINGS:
        return EmbeddingRanker(OpenAIEmbedder.from_env())
    if by is By.LOCAL:
        return EmbeddingRanker(LocalEmbedder())
    if by is By.FUSED:
        return FusedRanker([Bm25Ranker(), EmbeddingRanker(OpenAIEmbedder.from_env())])
    return Bm25Ranker()


def _why(agent: FoundAgent) -> str:
    best = agent.why[:2]
    reasons = [
        ", ".join(match.terms) or f"near in meaning ({match.similarity or 0:.2f})" for match in best
    ]
    return "; ".join(
        f"{match.skill or 'itself'}: {reason}" for match, reason in zip(best, reasons, strict=True)
    )
