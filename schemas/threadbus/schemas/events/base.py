"""The base of every event's data, and what several families share.

A data class declares the name it has on the wire (``TYPE``), the class that its subject carries
(``CLASS``) and, once it has changed, its version. docs/schema-evolution.md says what may change.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Self

import msgspec

from threadbus.schemas.bounds import WAY_OUT, Note, Word
from threadbus.schemas.limits import MAX_NOTE_CHARS, MAX_PARTS, MAX_WORD_CHARS
from threadbus.schemas.parts import Part
from threadbus.schemas.text import clean_text


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
    VERSION: ClassVar[int] = 1
    """The version that this code writes; older ones are upcast, newer ones are kept opaque."""


PartList = Annotated[
    tuple[Part, ...],
    msgspec.Meta(
        max_length=MAX_PARTS,
        extra={WAY_OUT: "send several events, or attach the rest as one file"},
    ),
]


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it is recorded: its kind for programs, its message for people."""

    kind: Word
    message: Note

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe *error*; whatever its message holds, the result can be recorded."""
        kind = clean_text(type(error).__name__, MAX_WORD_CHARS)
        try:
            message = str(error)
        except Exception as failure:
            message = f"{kind} has no message: {type(failure).__name__} in its __str__"
        return cls(kind, clean_text(message, MAX_NOTE_CHARS))
