"""Names that come from outside a gateway, and names that go outside."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadbus.bus import UnknownAgentError
from threadbus.gateways.errors import AmbiguousNameError
from threadbus.gateways.names import agent_name_of, find_agent, tool_name
from threadbus.schemas import AgentCard, parse_agent_name

CARDS = [
    AgentCard(name="web", display_name="Web Searcher"),
    AgentCard(name="web_agent"),
    AgentCard(name="billing-agent-1", display_name="Billing"),
    AgentCard(name="planner"),
]


@given(st.text(st.characters(codec=None), max_size=80))
def test_every_foreign_name_becomes_a_canonical_one(foreign: str) -> None:
    """Whatever it holds, the result is within the grammar and the same each time."""
    assert parse_agent_name(agent_name_of(foreign)) == agent_name_of(foreign)


def test_foreign_names_that_look_alike_stay_apart() -> None:
    """Case, dots, blanks and other scripts do not make one agent of two."""
    names = ["Billing Agent", "billing.agent", "billing agent", "刘备", "劉備", "", " "]

    assert len({agent_name_of(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("web", "web"),
        ("@web", "web"),
        (" Web ", "web"),
        ("web-agent", "web_agent"),
        ("Web Searcher", "web"),
        ("web.searcher", "web"),
        ("BILLING", "billing-agent-1"),
        ("Billing Agent 1", "billing-agent-1"),
    ],
)
def test_a_registered_agent_is_found_by_what_people_write(typed: str, meant: str) -> None:
    """The canonical name counts first, then what differs from a name in form only."""
    assert find_agent(typed, CARDS) == meant


def test_a_foreign_agent_is_found_by_its_foreign_name() -> None:
    """An agent that was registered under the mapped name answers to the name it came with."""
    mapped = agent_name_of("刘备")

    assert find_agent("刘备", [AgentCard(name=mapped)]) == mapped


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """Nothing is guessed, also where one name is very near."""
    with pytest.raises(UnknownAgentError) as refusal:
        find_agent("planer", CARDS)

    assert refusal.value.nearest == ("planner",)


def test_a_name_that_nothing_is_left_of_is_unknown() -> None:
    """A name of signs alone fits nobody instead of everybody without a display name."""
    with pytest.raises(UnknownAgentError):
        find_agent("@ - .", CARDS)


def test_a_name_that_fits_two_agents_is_refused() -> None:
    """The error names both."""
    cards = [AgentCard(name="a-b"), AgentCard(name="a_b")]

    with pytest.raises(AmbiguousNameError, match="a-b, a_b") as refusal:
        find_agent("A B", cards)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)  # noqa: S301


def test_a_tool_name_fits_and_stays_its_own() -> None:
    """Names that only differ where they are cut become different tools."""
    one, two = "a" * 62 + "b", "a" * 62 + "c"

    assert tool_name("ask_", "web") == "ask_web"
    assert len(tool_name("ask_", one)) == 64
    assert tool_name("ask_", one) != tool_name("ask_", two)
    assert tool_name("ask_", one) == tool_name("ask_", one)
