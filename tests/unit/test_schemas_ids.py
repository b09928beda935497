"""Ids and names: their layout, their derivation, what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.schema_strategies import ids, names
from threadbus.schemas import (
    MAIN_THREAD,
    MAX_NAME_CHARS,
    AgentName,
    EventId,
    InvalidIdError,
    InvalidNameError,
    canonical_agent_name,
    derive_event_id,
    derive_thread_id,
    event_time_ms,
    nearest_names,
    new_event_id,
    new_task_id,
    new_thread_id,
    parse_agent_name,
    parse_event_id,
    parse_task_id,
    parse_thread_id,
    span_id,
)
from threadbus.schemas.ids import lay_out_uuid7

GOLDEN = Path(__file__).parents[1] / "golden"
CAUSE = EventId("0199b2f04c007a31b2c3d4e5f6071829")
CODER = AgentName("coder")


class Vector(TypedDict):
    """One line of the file that other languages check against."""

    cause: str
    agent: str
    index: int | str
    id: str


VECTORS: list[Vector] = json.loads((GOLDEN / "derived_ids.json").read_text(encoding="utf-8"))


def test_uuid7_is_laid_out_as_the_rfc_says() -> None:
    """The example of RFC 9562 appendix A.6 comes out of its time and random bits."""
    rand = f"cc3{0x18C4DC0C0C07398F << 2:016x}"

    assert lay_out_uuid7("017f22e279b0", rand) == "017f22e279b07cc398c4dc0c0c07398f"
    assert lay_out_uuid7("017f22e279b0", "f" * 20) == "017f22e279b07fffbfffffffffffffff"
    assert lay_out_uuid7("000000000000", "0" * 20) == "00000000000070008000000000000000"


@pytest.mark.parametrize("make", [new_task_id, new_event_id])
def test_a_new_id_is_a_uuid7_of_now(make: Callable[[], str]) -> None:
    """Version 7, the RFC's variant, and a time between before and after."""
    before = time.time_ns() // 1_000_000
    made = make()
    after = time.time_ns() // 1_000_000

    parsed = uuid.UUID(made)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before <= event_time_ms(EventId(made)) <= after
    assert made == parsed.hex


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_makes_ids_of_its_own() -> None:
    """What a process would use for its next ids is not used again by its child."""
    program = (
        "import os\n"
        "from threadbus.schemas import new_event_id\n"
        "new_event_id()\n"
        "child = os.fork()\n"
        # One write, so that the lines of the two do not mix.
        "os.write(1, ''.join(new_event_id()[12:] + '\\n' for _ in range(100)).encode())\n"
        "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert len(set(made.stdout.split())) == 200


def test_new_ids_differ() -> None:
    """A thousand ids of one moment are a thousand ids."""
    assert len({new_event_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_derived_ids_are_the_same_for_ever(vector: Vector) -> None:
    """The committed vectors hold, so every language and every release derives the same id."""
    derived = derive_event_id(EventId(vector["cause"]), AgentName(vector["agent"]), vector["index"])

    assert derived == vector["id"]


@given(ids, names, st.integers(0) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_a_derived_id_is_a_uuid7_with_the_time_of_its_cause(
    cause: str, agent: str, index: int | str
) -> None:
    """Whatever it is derived from, it is a valid id, sorts with its cause, and has a span id."""
    derived = derive_event_id(EventId(cause), AgentName(agent), index)

    assert uuid.UUID(parse_event_id(derived)).version == 7
    assert derived[:12] == cause[:12]
    assert span_id(derived) == derived[16:]


def test_each_argument_changes_a_derived_id() -> None:
    """Cause, agent and index are told apart, also where they could run into one another."""
    other = EventId("0199b2f04c007a31b2c3d4e5f6071820")
    made = {
        derive_event_id(CAUSE, CODER, 1),
        derive_event_id(other, CODER, 1),
        derive_event_id(CAUSE, AgentName("coder1"), 1),
        derive_event_id(CAUSE, CODER, 11),
        derive_event_id(CAUSE, CODER, "answer"),
    }

    assert len(made) == 5
    assert derive_event_id(CAUSE, CODER, 1) == derive_event_id(CAUSE, CODER, "1")


@pytest.mark.parametrize("parse", [parse_task_id, parse_event_id])
@pytest.mark.parametrize(
    ("given_id", "suggestion"),
    [
        ("", ""),
        ("0199", ""),
        ("0199B2F04C007A31B2C3D4E5F6071829", "0199b2f04c007a31b2c3d4e5f6071829"),
        ("0199b2f0-4c00-7a31-b2c3-d4e5f6071829", "0199b2f04c007a31b2c3d4e5f6071829"),
        ("0199b2f04c007a31b2c3d4e5f6071829\n", "0199b2f04c007a31b2c3d4e5f6071829"),
        ("0199b2f04c007a31b2c3d4e5f607182g", ""),
        ("0199b2f04c007a31b2c3d4e5f60718290", ""),
        ("0" * 32, ""),
        ("0199b2f04c007a310000000000000000", ""),
        ("\u0660" * 32, ""),
        ("*", ""),
        ("x" * 10_000_000, ""),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_is_no_id_is_refused(
    parse: Callable[[str], str], given_id: str, suggestion: str
) -> None:
    """The error names the value, the form, and the right id where only case or dashes are off."""
    with pytest.raises(InvalidIdError, match="32 lower-case hex digits") as caught:
        parse(given_id)

    assert caught.value.value == given_id
    assert caught.value.suggestion == suggestion
    assert suggestion in str(caught.value)
    assert len(str(caught.value)) < 300


@given(ids)
def test_ids_are_kept_as_they_are(value: str) -> None:
    """What is an id comes back unchanged."""
    assert parse_task_id(value) == value
    assert parse_event_id(value) == value


@pytest.mark.parametrize(
    "name",
    ["", "-a", "_a", "Web", "web agent", "a.b", "a*", ">", "web\n", "café", "a" * 64, "刘备", "\0"],
    ids=ascii,
)
def test_what_is_no_name_is_refused_with_one_that_would_do(name: str) -> None:
    """The error has a canonical name that is accepted."""
    with pytest.raises(InvalidNameError, match="1 to 63 characters") as caught:
        parse_agent_name(name)

    assert parse_agent_name(caught.value.suggestion) in str(caught.value)
    with pytest.raises(InvalidNameError, match="thread id"):
        parse_thread_id(name)


@given(names)
def test_names_are_kept_as_they_are(name: str) -> None:
    """A canonical name is its own canonical name."""
    assert parse_agent_name(name) == name
    assert parse_thread_id(name) == name
    assert canonical_agent_name(name) == name


@given(st.text())
def test_every_display_name_has_a_canonical_one(display_name: str) -> None:
    """The mapping never fails, gives a valid name, and gives it again for what it gave."""
    name = canonical_agent_name(display_name)

    assert name == parse_agent_name(name) == canonical_agent_name(name)


def test_display_names_that_look_alike_stay_apart() -> None:
    """Case, punctuation, script and a lone surrogate all make another agent."""
    looks = ["Billing Agent", "billing.agent", "Billing-Agent", "billing-agent", "BILLING AGENT"]
    looks += ["刘备", "关羽", "", " ", "\ud800", "Billing Agent ", "ﬁ", "fi"]

    mapped = [canonical_agent_name(name) for name in looks]

    assert len(set(mapped)) == len(looks)
    assert mapped[0].startswith("billing-agent-")
    assert mapped[5].startswith("agent-")


def test_a_huge_display_name_becomes_a_short_one() -> None:
    """The whole name counts, but what comes out is bounded."""
    one, other = "A" * 1_000_000, "A" * 1_000_001

    assert canonical_agent_name(one) != canonical_agent_name(other)
    assert len(canonical_agent_name(one)) <= MAX_NAME_CHARS


def test_near_misses_are_found_best_first() -> None:
    """A typo, a wrong case and a missing suffix lead to the name that was meant."""
    known = ["web_agent", "document", "coder", "answer-finder"]

    assert nearest_names("web", known)[0] == "web_agent"
    assert nearest_names("Documnet", known)[0] == "document"
    assert nearest_names("coder2", known, count=1) == ["coder"]
    assert nearest_names("zzzz", known) == []
    assert nearest_names("x" * 1_000_000, known) == []


@given(st.text())
def test_every_title_gives_a_thread_id(title: str) -> None:
    """A thread id of any title is valid, and another one each time."""
    made = new_thread_id(title)

    assert parse_thread_id(made) == made != MAIN_THREAD
    assert new_thread_id(title) != made


@given(st.text(), names)
def test_derived_thread_ids_repeat(title: str, agent: str) -> None:
    """A redelivered mention opens the same thread, not a second one."""
    made = derive_thread_id(title, CAUSE, AgentName(agent), 0)

    assert parse_thread_id(made) == derive_thread_id(title, CAUSE, AgentName(agent), 0)
    assert made != derive_thread_id(title, CAUSE, AgentName(agent), 1)
