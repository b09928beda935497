"""Agent cards, registry entries and heartbeats: round trip and refusals."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec.inspect as mi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.schema_strategies import value_of
from threadbus.schemas import (
    MAX_CARD_BYTES,
    MAX_DISPLAY_NAME_CHARS,
    MAX_SKILL_ENTRIES,
    MAX_SKILLS,
    AgentCard,
    AgentRecord,
    InvalidNameError,
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    NotJsonError,
    Presence,
    PresenceState,
    SchemaError,
    Skill,
    decode_entry,
    encode_entry,
)

CARD = AgentCard(
    name="web_agent",
    display_name="Élodie 🚀",
    description="Reads pages",
    version="1.2.0",
    skills=(Skill(id="fetch", name="Fetch", tags=("web",), examples=("Read example.org",)),),
    security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
    labels={"team": "research"},
)
RECORD = AgentRecord(card=CARD, holder="web-7f3a", host="h", pid=12, registered_at=5, replicas=3)
PRESENCE = Presence(agent="web_agent", instance="i-1", holder="web-7f3a")


def changed(**changes: Any) -> AgentRecord:
    """Make a record whose card has *changes*."""
    fields: dict[str, Any] = {"name": "web"} | changes
    return AgentRecord(card=AgentCard(**fields), holder="h")


@pytest.mark.parametrize(
    "entry", [RECORD, changed(), PRESENCE], ids=["full record", "least record", "presence"]
)
def test_an_entry_comes_back_as_it_was(entry: AgentRecord | Presence) -> None:
    """What the registry keeps is what was registered; defaults are left out of the bytes."""
    encoded = encode_entry(entry)

    assert decode_entry(encoded, type(entry)) == entry
    assert b"null" not in encoded
    assert b"replicas" not in encode_entry(changed())


@given(value_of(mi.type_info(AgentRecord)) | value_of(mi.type_info(Presence)))
def test_any_entry_comes_back_as_it_was(entry: AgentRecord | Presence) -> None:
    """The same for entries of every shape."""
    assert decode_entry(encode_entry(entry), type(entry)) == entry


def test_titles_and_names() -> None:
    """The display name is shown where there is one."""
    assert CARD.title == "Élodie 🚀"
    assert changed().card.title == "web"
    assert PRESENCE.name == "web_agent"
    assert PRESENCE.state is PresenceState.IDLE


@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [
        (changed(name="Web Agent"), InvalidNameError, "registry entry.card.name 'Web Agent'"),
        (changed(name=""), InvalidNameError, "1 to 63 characters"),
        (
            changed(display_name="x" * (MAX_DISPLAY_NAME_CHARS + 1)),
            LimitExceededError,
            "registry entry.card.display_name: 121 is over the limit of 120; shorten it",
        ),
        (
            changed(skills=(Skill(id="a", name="b"),) * (MAX_SKILLS + 1)),
            LimitExceededError,
            "registry entry.card.skills: 65 is over the limit of 64; merge skills",
        ),
        (
            changed(skills=(Skill(id="a", name="b", tags=("x",) * (MAX_SKILL_ENTRIES + 1)),)),
            LimitExceededError,
            "registry entry.card.skills[0].tags: 33 is over the limit of 32",
        ),
        (
            changed(security_schemes={"a": "x" * MAX_CARD_BYTES}),
            LimitExceededError,
            "bytes of one registry entry",
        ),
        (
            changed(security_schemes={"a": {1: 2}}),
            NotJsonError,
            "card.security_schemes.a is 1 (int)",
        ),
        (changed(security_schemes={"a": float("inf")}), NotJsonError, "security_schemes.a is inf"),
        (changed(security_schemes={"a": object()}), NotJsonError, "of the type object"),
        (
            changed(description="a\0"),
            InvalidTextError,
            "registry entry.card.description holds U+0000",
        ),
        (changed(description="\ud800"), InvalidTextError, "holds U+D800"),
        (
            Presence(agent="web", instance="i", holder="h", queue_depth=-1),
            MalformedEventError,
            "not a valid presence entry: presence entry.queue_depth is -1",
        ),
        (Presence(agent="Web", instance="i", holder="h"), InvalidNameError, "presence entry.agent"),
    ],
    ids=lambda value: ascii(value)[-60:],
)
def test_an_entry_that_is_wrong_is_not_written(
    entry: AgentRecord | Presence, kind: type[SchemaError], words: str
) -> None:
    """The error names the field, the value and the limit."""
    with pytest.raises(kind) as caught:
        encode_entry(entry)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b'{"card":{},"holder":"h"}', b'{"card":{"name":"w"}}', b"\xff"],
    ids=ascii,
)
def test_foreign_bytes_in_the_registry_are_refused(body: bytes) -> None:
    """Whoever may write to the bucket cannot crash a reader."""
    for kind in (AgentRecord, Presence):
        with pytest.raises(MalformedEventError, match=r"not a valid (registry|presence) entry"):
            decode_entry(body, kind)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_raise_nothing_but_a_schema_error(body: bytes) -> None:
    """The same for bytes that nobody thought of."""
    for kind in (AgentRecord, Presence):
        with pytest.raises(SchemaError):
            decode_entry(body, kind)


def test_a_newer_card_is_read() -> None:
    """Fields that are not known are passed over at every level."""
    fields = cast("dict[str, Any]", json.loads(encode_entry(RECORD)))
    fields["card"]["icon"] = "x"
    fields["zone"] = "eu"

    assert decode_entry(json.dumps(fields).encode(), AgentRecord) == RECORD
