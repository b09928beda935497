"""The bounded types that fields share: how long a text, how many entries, how great a number.

Each bound also holds the way out that its error names. Patterns end in ``\\Z``, because ``$`` would
let a newline through at the end; the JSON Schemas say ``$``, which means the end in their dialect.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from threadbus.schemas.limits import (
    MAX_INTEGER,
    MAX_LABELS,
    MAX_MENTIONS,
    MAX_NOTE_CHARS,
    MAX_PARTICIPANTS,
    MAX_REASONS,
    MAX_TITLE_CHARS,
    MAX_TYPE_CHARS,
    MAX_WORD_CHARS,
)

ID_PATTERN: Final = r"^[0-9a-f]{32}\Z"
NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,62}\Z"
NAME_OR_NONE_PATTERN: Final = r"^([a-z0-9][a-z0-9_-]{0,62})?\Z"
TYPE_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
WAY_OUT: Final = "way_out"
"""The key of ``msgspec.Meta.extra`` that holds what to do instead of going over a bound."""

_PUT_IN_PART: Final = {WAY_OUT: "shorten it, or put it in a part or an artifact"}
_SHORTEN: Final = {WAY_OUT: "shorten it"}

HexId = Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
"""The id of an event."""
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
"""An agent's canonical name, or a thread id."""
TypeName = Annotated[
    str, msgspec.Meta(pattern=TYPE_PATTERN, max_length=MAX_TYPE_CHARS, extra=_SHORTEN)
]
"""The name of an event's type."""
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]

Word = Annotated[str, msgspec.Meta(max_length=MAX_WORD_CHARS, extra=_SHORTEN)]
"""A label, or the name of a file, a model, a tool or a media type."""
Title = Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS, extra=_PUT_IN_PART)]
Note = Annotated[str, msgspec.Meta(max_length=MAX_NOTE_CHARS, extra=_PUT_IN_PART)]
"""Free text beside the parts; :func:`~threadbus.schemas.clean_text` makes any text fit."""

Notes = Annotated[
    tuple[Note, ...],
    msgspec.Meta(max_length=MAX_REASONS, extra={WAY_OUT: "join some, or put them in a part"}),
]
Mentioned = Annotated[
    tuple[Name, ...],
    msgspec.Meta(max_length=MAX_MENTIONS, extra={WAY_OUT: "one event mentions no more than that"}),
]
Participants = Annotated[
    tuple[Name, ...],
    msgspec.Meta(
        max_length=MAX_PARTICIPANTS,
        extra={WAY_OUT: "add the others afterwards, or split the work over threads"},
    ),
]
Labels = Annotated[
    dict[Word, Word],
    msgspec.Meta(max_length=MAX_LABELS, extra={WAY_OUT: "set fewer, or put them in a data part"}),
]

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]
TimeNs = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
"""Nanoseconds since the epoch."""
DurationNs = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
"""Nanoseconds."""
