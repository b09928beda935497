"""Finding agents: ranked by words or by meaning, with a score and why, the living by default."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.bus_env import MemoryEnv
from tests.support.running_agents import user_in_memory
from threadbus.agents import (
    Bm25Ranker,
    DiscoveryError,
    EmbeddingRanker,
    FusedRanker,
    InvalidSettingError,
    OpenAIEmbedder,
    find_agents,
)
from threadbus.agents.discovery import MissingPackageError
from threadbus.agents.discovery.errors import load
from threadbus.bus import Bus, new_instance
from threadbus.schemas import AgentCard, Presence, Skill

CARDS = [
    AgentCard(
        name="ledger",
        description="Keeps books.",
        skills=(
            Skill(id="audit", name="Audit invoices", tags=("accounting", "invoices")),
            Skill(id="tax", name="Compute taxes"),
        ),
    ),
    AgentCard(name="poet", description="Writes verses and rhymes about invoices."),
    AgentCard(name="chef", description="Cooks.", skills=(Skill(id="menu", name="Plan a menu"),)),
]


async def register(bus: Bus, *cards: AgentCard, living: bool = True) -> None:
    """Register agents, with a heartbeat or without."""
    for card in cards:
        holder = new_instance()
        await bus.registry.register(card, holder=holder)
        if living:
            await bus.registry.beat(Presence(agent=card.name, instance=holder, holder=holder))


async def test_agents_are_found_by_their_skills_with_a_reason() -> None:
    """The best is first; the match names the skill and the words of the query as they were."""
    async with user_in_memory() as bus:
        await register(bus, *CARDS)
        found = await find_agents(bus, "Who can be auditing an INVOICE for me?")

    assert [agent.name for agent in found] == ["ledger", "poet"]
    assert found[0].score > found[1].score > 0
    assert [(match.skill, match.terms) for match in found[0].why] == [
        ("audit", ("auditing", "invoice"))
    ]
    assert [(match.skill, match.terms) for match in found[1].why] == [("", ("invoice",))]


async def test_only_the_living_are_found_unless_asked() -> None:
    """An agent without a heartbeat is found when it is asked for, and marked."""
    async with user_in_memory() as bus:
        await register(bus, CARDS[0], living=False)
        await register(bus, *CARDS[1:])
        living = await find_agents(bus, "invoices")
        everybody = await find_agents(bus, "invoices", living_only=False)

    assert [agent.name for agent in living] == ["poet"]
    assert [(agent.name, agent.living) for agent in everybody] == [
        ("ledger", False),
        ("poet", True),
    ]


@pytest.mark.parametrize("query", ["zebra", "the of and", "?!", "\x00", "刘备"])
async def test_what_fits_nobody_finds_nobody(query: str) -> None:
    """No shared word, no agent; neither with words that say nothing."""
    async with user_in_memory() as bus:
        await register(bus, *CARDS)

        assert await find_agents(bus, query) == []


async def test_bad_input_is_refused_with_the_limit() -> None:
    """An empty query and a limit out of bounds are errors; a very long query is cut."""
    async with user_in_memory() as bus:
        assert await find_agents(bus, "invoices") == []
        await register(bus, *CARDS)
        with pytest.raises(InvalidSettingError, match="say in words"):
            await find_agents(bus, "  ")
        for limit in (0, 101):
            with pytest.raises(InvalidSettingError, match="1 to 100"):
                await find_agents(bus, "invoices", limit)

        assert len(await find_agents(bus, "invoices " * 100_000, 1)) == 1


async def test_a_card_that_changes_is_found_by_its_new_words() -> None:
    """The index follows the registry."""
    ranker = Bm25Ranker()
    before = await ranker.rank("menu", CARDS)
    after = await ranker.rank("menu", [*CARDS[:2], AgentCard(name="chef", description="Sleeps.")])

    assert [ranked.card.name for ranked in before] == ["chef"]
    assert after == []


def test_a_missing_extra_says_how_to_install_it() -> None:
    """The error names the package and the extra."""
    with pytest.raises(MissingPackageError, match=r"threadbus\[discovery\]"):
        load("no_such_module_of_ours", "discovery")


class Meanings:
    """Vectors by hand: one dimension for money, one for food."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Count what a text says of each."""
        money = ("invoice", "tax", "book", "finance")
        food = ("cook", "menu", "dinner")
        return [
            [float(sum(w in text.lower() for w in words)) for words in (money, food)]
            for text in texts
        ]


async def test_embeddings_find_what_shares_no_word() -> None:
    """The nearest skill counts, and is named."""
    ranker = EmbeddingRanker(Meanings())
    found = await ranker.rank("Somebody for the finance side", CARDS)

    assert found[0].card.name == "ledger"
    assert found[0].why[0].similarity == pytest.approx(1.0)
    assert "chef" not in [ranked.card.name for ranked in found]


async def test_fused_rankings_keep_what_either_finds() -> None:
    """A card that one ranker passes over is still found, behind those that both find."""
    fused = FusedRanker([Bm25Ranker(), EmbeddingRanker(Meanings())])
    found = await fused.rank("dinner verses", CARDS)

    assert {ranked.card.name for ranked in found} == {"poet", "chef"}
    assert all(ranked.why for ranked in found)


def vectors_for(texts: Sequence[str], fields: dict[str, Any]) -> bytes:
    """Answer as an endpoint does, the rows in another order, with some fields replaced."""
    rows = [
        {"object": "embedding", "index": number, "embedding": [1.0, float(len(text))]}
        for number, text in enumerate(texts)
    ]
    return json.dumps({"object": "list", "model": "m", "data": rows[::-1], **fields}).encode()


@asynccontextmanager
async def endpoint(body: dict[str, Any] | bytes, status: int = 200) -> AsyncGenerator[str]:
    """Serve one answer to whatever is posted; yield the base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in request.lower().splitlines()
            if line.startswith(b"content-length")
        )
        texts = json.loads(await reader.readexactly(length))["input"]
        out = body if isinstance(body, bytes) else vectors_for(texts, body)
        head = f"HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {len(out)}\r\n"
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + out)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_an_openai_endpoint_gives_the_vectors_in_order() -> None:
    """Vectors are put in the order of the texts, whatever the order of the answer."""
    async with endpoint({}) as url:
        vectors = await OpenAIEmbedder("m", base_url=url).embed(["a", "bb", "ccc"])

    assert [list(vector) for vector in vectors] == [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"data": []}, 200), ({}, 400), (b'{"data": "x"}', 200), (b"<html>", 200)],
)
async def test_an_endpoint_without_vectors_is_a_clear_error(
    body: dict[str, Any] | bytes, status: int
) -> None:
    """Refusals and answers of another form name the model and the variables."""
    async with endpoint(body, status) as url:
        with pytest.raises(DiscoveryError, match=r"no embeddings from m: .*BUS_EMBEDDING_MODEL"):
            await OpenAIEmbedder("m", base_url=url).embed(["a"])


def test_embeddings_need_a_model_by_name() -> None:
    """The error names the variable."""
    with pytest.raises(InvalidSettingError, match="BUS_EMBEDDING_MODEL"):
        OpenAIEmbedder.from_env({})


async def test_a_memory_bus_of_another_kind_is_searched_too() -> None:
    """An empty registry finds nobody, and needs no ranker for it."""
    async with MemoryEnv().connect("user") as bus:
        assert await find_agents(bus, "anything") == []
