"""How MCP hosts refer to threads and resources, and the cursors of their waits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadbus.bus import LivingAgent
from threadbus.gateways.errors import BadArgumentError, InvalidCursorError, InvalidUriError
from threadbus.gateways.mcp.directory import ranked
from threadbus.gateways.mcp.prompts import PROMPTS, render
from threadbus.gateways.mcp.references import (
    Place,
    agent_uri,
    artifact_uri,
    make_cursor,
    parse_thread,
    parse_uri,
    read_cursor,
    task_uri,
    thread_ref,
    thread_uri,
    trace_of,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    AgentRecord,
    LimitExceededError,
    SchemaError,
    Skill,
    TaskId,
    ThreadId,
)

ADA = AgentName("ada")
TASK = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
TALK = ThreadId("talk-1a2b3c")


@given(st.sets(st.integers(1, 2**62), max_size=40))
def test_a_cursor_says_exactly_what_was_handed_out(seqs: set[int]) -> None:
    """What it names is acknowledged, and nothing else."""
    assert read_cursor(ADA, make_cursor(ADA, seqs)) == seqs


@given(st.text(max_size=60))
def test_no_text_is_taken_for_a_cursor_by_accident(text: str) -> None:
    """A slip must not acknowledge what nobody has received."""
    if text.strip():
        with pytest.raises(InvalidCursorError):
            read_cursor(ADA, text)


def test_a_cursor_of_another_agent_or_one_that_was_changed_is_refused() -> None:
    """The digits in front notice both."""
    cursor = make_cursor(ADA, [7, 9, 4000])

    with pytest.raises(InvalidCursorError):
        read_cursor(AgentName("bob"), cursor)
    with pytest.raises(InvalidCursorError, match="copy it exactly"):
        read_cursor(ADA, cursor[:-1])
    assert read_cursor(ADA, f" {cursor}\n") == {7, 9, 4000}
    assert read_cursor(ADA, "") == frozenset()


def test_a_thread_is_referred_to_in_one_text() -> None:
    """A task alone is its main thread, and the resource's name is understood too."""
    assert parse_thread(thread_ref(TASK, TALK)) == Place(TASK, TALK)
    assert parse_thread(f" {TASK} ") == Place(TASK, MAIN_THREAD)
    assert parse_thread(thread_uri(TASK, TALK)) == Place(TASK, TALK)
    for wrong in ("", "talk", f"{TASK}/", f"{TASK}/A B", f"{TASK}/a/b", "../etc"):
        with pytest.raises(SchemaError):
            parse_thread(wrong)


def test_resources_are_named_and_found_again() -> None:
    """Each kind is recognised by its name."""
    uris = [
        "threadbus://agents",
        agent_uri("web"),
        task_uri(TASK),
        thread_uri(TASK, TALK),
        artifact_uri("a" * 64),
    ]

    assert [parse_uri(uri).kind for uri in uris] == [
        "agents",
        "agent",
        "task",
        "thread",
        "artifact",
    ]
    assert parse_uri(thread_uri(TASK, TALK))[1:3] == (TASK, TALK)


@pytest.mark.parametrize(
    "uri",
    ["", "threadbus://", "threadbus://tasks/x", "file:///etc/passwd", "threadbus://agents/A B",
     "threadbus://artifacts/zz", "threadbus://threads/a/b/c", "THREADBUS://agents"],
)  # fmt: skip
def test_a_resource_that_does_not_exist_is_told_with_those_that_do(uri: str) -> None:
    """The error lists the forms."""
    with pytest.raises(InvalidUriError, match=re.escape("threadbus://threads/{task}/{thread}")):
        parse_uri(uri)


def test_a_traceparent_gives_its_trace_and_anything_else_none() -> None:
    """What a host sends may be anything."""
    assert trace_of(f"00-{TASK}-b7ad6b7169203331-01") == TASK
    wrong: list[object] = [None, 7, "", "00-x", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TASK}"]
    for value in wrong:
        assert trace_of(value) is None


def agent(name: str, about: str, *skills: str) -> LivingAgent:
    """Make a registered agent."""
    card = AgentCard(
        name=name,
        description=about,
        skills=tuple(Skill(id=skill, name=skill) for skill in skills),
    )
    return LivingAgent(AgentRecord(card=card, holder="h"), ())


def test_agents_are_ranked_by_what_their_cards_say() -> None:
    """A rare word counts more than a common one, a skill more than the description."""
    web = agent("web", "An agent that searches the web for pages.")
    coder = agent("coder", "An agent that writes code.", "Python")
    reader = agent("reader", "An agent that reads documents and Python files.")

    assert [found.name for found in ranked([web, coder, reader], "run some python")] == [
        "coder",
        "reader",
    ]
    assert ranked([web, coder, reader], "an agent for the web, please")[0] is web
    assert ranked([web], "quantum") == []


def test_prompts_take_what_they_need_and_nothing_else() -> None:
    """A missing, an unknown and an endless argument are told apart."""
    assert "find the bug" in render(PROMPTS["lead_a_team"], {"goal": "find the bug"})
    assert render(PROMPTS["serve_mentions"], {})
    with pytest.raises(BadArgumentError, match="goal: it is missing"):
        render(PROMPTS["lead_a_team"], {"goal": " "})
    with pytest.raises(BadArgumentError, match="does not take it"):
        render(PROMPTS["lead_a_team"], {"goal": "x", "gaol": "y"})
    with pytest.raises(LimitExceededError):
        render(PROMPTS["lead_a_team"], {"goal": "x" * 30_000})
