"""Agent cards and presence: what the registry keeps of an agent, and what a heartbeat says."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from threadbus.schemas.events.base import Count, Name, TimeNs
from threadbus.schemas.ids import AgentName
from threadbus.schemas.limits import MAX_DISPLAY_NAME_CHARS, MAX_SKILLS


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing an agent can do, in words that a search can find."""

    id: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class AgentCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent presents itself; the fields follow A2A's agent card."""

    name: Name
    display_name: Annotated[str, msgspec.Meta(max_length=MAX_DISPLAY_NAME_CHARS)] = ""
    description: str = ""
    version: str = "0.1.0"
    skills: Annotated[tuple[Skill, ...], msgspec.Meta(max_length=MAX_SKILLS)] = ()
    input_modes: tuple[str, ...] = ("text/plain",)
    output_modes: tuple[str, ...] = ("text/plain",)
    security_schemes: dict[str, Any] = {}
    labels: dict[str, str] = {}

    @property
    def title(self) -> str:
        """The display name, or the canonical one where there is none."""
        return self.display_name or self.name


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A registry entry: the card, who holds the name, and where its inbox is."""

    card: AgentCard
    holder: str
    """The instance (or group of replicas) that registered; a newcomer is another one."""
    host: str = ""
    pid: Count = 0
    registered_at: TimeNs = 0
    inbox_stream: str = "MENTIONS"
    push: bool = False
    """Whether mentions are pushed to ``inbox.<name>`` instead of pulled."""
    replicas: Count = 1


class PresenceState(StrEnum):
    """What a living agent is doing."""

    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One heartbeat of one instance."""

    agent: Name
    instance: str
    holder: str
    state: PresenceState = PresenceState.IDLE
    busy_with: str = ""
    """For a person: which thread, and what the agent last said of its progress."""
    queue_depth: Count = 0
    host: str = ""
    pid: Count = 0
    at: TimeNs = 0
    since: TimeNs = 0
    """When the instance started."""

    @property
    def name(self) -> AgentName:
        """The agent's name."""
        return AgentName(self.agent)
