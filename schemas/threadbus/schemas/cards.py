"""Agent cards and presence: what the registry keeps of an agent, and what a heartbeat says."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from threadbus.schemas.bounds import (
    WAY_OUT,
    Count,
    Labels,
    Name,
    Note,
    Positive,
    TimeNs,
    Title,
    Word,
)
from threadbus.schemas.ids import AgentName
from threadbus.schemas.limits import MAX_DISPLAY_NAME_CHARS, MAX_SKILL_ENTRIES, MAX_SKILLS

DisplayName = Annotated[
    str, msgspec.Meta(max_length=MAX_DISPLAY_NAME_CHARS, extra={WAY_OUT: "shorten it"})
]
Words = Annotated[
    tuple[Word, ...],
    msgspec.Meta(max_length=MAX_SKILL_ENTRIES, extra={WAY_OUT: "keep those that tell most"}),
]
Examples = Annotated[
    tuple[Note, ...],
    msgspec.Meta(max_length=MAX_SKILL_ENTRIES, extra={WAY_OUT: "keep those that tell most"}),
]


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing an agent can do, in words that a search can find."""

    id: Word
    name: Title
    description: Note = ""
    tags: Words = ()
    examples: Examples = ()


Skills = Annotated[
    tuple[Skill, ...],
    msgspec.Meta(
        max_length=MAX_SKILLS, extra={WAY_OUT: "merge skills, or register a second agent"}
    ),
]


class AgentCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent presents itself; the fields follow A2A's agent card."""

    name: Name
    display_name: DisplayName = ""
    description: Note = ""
    version: Word = "0.1.0"
    skills: Skills = ()
    input_modes: Words = ("text/plain",)
    output_modes: Words = ("text/plain",)
    security_schemes: dict[str, Any] = {}
    labels: Labels = {}

    @property
    def title(self) -> str:
        """The display name, or the canonical one where there is none."""
        return self.display_name or self.name


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A registry entry: the card, who holds the name, and where its inbox is."""

    card: AgentCard
    holder: Word
    """The instance (or group of replicas) that registered; a newcomer is another one."""
    host: Word = ""
    pid: Count = 0
    registered_at: TimeNs = 0
    inbox_stream: Word = "MENTIONS"
    push: bool = False
    """Whether mentions are pushed to ``inbox.<name>`` instead of pulled."""
    replicas: Positive = 1


class PresenceState(StrEnum):
    """What a living agent is doing."""

    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One heartbeat of one instance."""

    agent: Name
    instance: Word
    holder: Word
    state: PresenceState = PresenceState.IDLE
    busy_with: Note = ""
    """For a person: which thread, and what the agent last said of its progress."""
    queue_depth: Count = 0
    host: Word = ""
    pid: Count = 0
    at: TimeNs = 0
    since: TimeNs = 0
    """When the instance started."""

    @property
    def name(self) -> AgentName:
        """The agent's name."""
        return AgentName(self.agent)
