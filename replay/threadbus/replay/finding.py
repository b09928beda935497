"""What an analysis of a run says: findings, and the steps that are suspected to be their cause."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from threadbus.schemas import AgentName, EventId, ThreadId


class FindingKind(StrEnum):
    """How sure a finding is to be a fault."""

    VIOLATION = "violation"
    """A fact of the protocol was broken."""
    SYMPTOM = "symptom"
    """Something went wrong, or was wasted; its cause may lie earlier."""
    HINT = "hint"
    """It may well be all right."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a detector found."""

    detector: str
    """The detector's id, as ``R1``."""
    name: str
    """What it looks for, in a few words."""
    kind: FindingKind
    seq: int
    """The step: the entry of the log that it is about."""
    at: int
    text: str
    """A sentence for a person."""
    agent: AgentName | None = None
    thread: ThreadId | None = None
    evidence: tuple[EventId, ...] = ()
    """The events that show it, the one at ``seq`` first."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that may have caused what was found, the likeliest first in a list."""

    seq: int
    event: EventId
    at: int
    score: float
    """From 0 to 1; how sure, not a probability."""
    reasons: tuple[str, ...]
    """Sentences for a person."""
    agent: AgentName | None = None
    thread: ThreadId | None = None
    findings: tuple[str, ...] = ()
    """Ids of the detectors whose findings lead here."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it took to ask a model about a run; its opinions are findings of the detector ``J``."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In the currency of the prices that were given."""
    duration_ns: int = 0
    problem: str = ""
    """Why it has no opinion, or why parts of it do not count."""
