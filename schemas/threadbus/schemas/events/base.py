"""The base of every event's data, and the types its fields share.

A data class declares the name it has on the wire (``TYPE``) and the class that its subject carries
(``CLASS``). Fields may be added with a default, never removed, renamed or given another meaning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from threadbus.schemas.limits import MAX_PARTICIPANTS, MAX_PARTS, MAX_TITLE_CHARS
from threadbus.schemas.parts import Part


class EventClass(StrEnum):
    """The subject token that says what kind of event follows."""

    CTL = "ctl"
    """State of a super-task or thread; guarded by the last of its kind."""
    MSG = "msg"
    """Messages."""
    WORK = "work"
    """Plans, assignments, results, critiques, votes, answers."""
    OBS = "obs"
    """Receipts, handling, model and tool calls, failures."""


class EventData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says; one subclass for each type."""

    TYPE: ClassVar[str]
    CLASS: ClassVar[EventClass]


HexId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
Name = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
Title = Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS)]
PartList = Annotated[tuple[Part, ...], msgspec.Meta(max_length=MAX_PARTS)]
Participants = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_PARTICIPANTS)]
Count = Annotated[int, msgspec.Meta(ge=0)]
TimeNs = Annotated[int, msgspec.Meta(ge=0)]
"""Nanoseconds since the epoch."""
DurationNs = Annotated[int, msgspec.Meta(ge=0)]


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it is recorded: its kind for programs, its message for people."""

    kind: str
    message: str
