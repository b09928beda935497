"""What A2A says about a message and its parts, as one more data part of the bus, and back.

The part says nothing to the bus: it is no label, no mention and no event of its own, and it is left
out where parts are read as text. It goes last in a message, and before the chunk that it is about
in an artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf import struct_pb2

from threadbus.gateways.a2a.values import fits, from_struct, put
from threadbus.gateways.text import clean_json
from threadbus.schemas import (
    MAX_WORD_CHARS,
    METADATA_TYPE,
    DataPart,
    LimitExceededError,
    Part,
    clean_text,
)

MAX_METADATA_BYTES: Final = 64 * 1024
"""Bytes of the JSON of everything that is said about one message and its parts."""

_RESERVED: Final = "threadbus."
"""What a key begins with that only a gateway writes."""


class Metadata(msgspec.Struct, omit_defaults=True):
    """What is said about a message, or an artifact, and its parts."""

    message: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    """By the place of the part, counted from 0 without those of metadata."""
    filenames: dict[str, str] = {}
    """Of parts that have no name on the bus."""


def gathered(parts: Sequence[pb.Part], about: struct_pb2.Struct | None) -> DataPart | None:
    """Return what is said about foreign parts, and about all of them; None where it is nothing.

    Raises:
        LimitExceededError: it is too much, or nested too deeply.
        ForeignPartError: it holds a number that cannot be.
    """
    found = Metadata(message=from_struct(about) if about is not None else {})
    for place, part in enumerate(parts):
        if part.HasField("metadata") and part.metadata.fields:
            found.parts[str(place)] = from_struct(part.metadata)
        if part.filename and part.WhichOneof("content") == "text":
            found.filenames[str(place)] = clean_text(part.filename, MAX_WORD_CHARS)
    data = clean_json(msgspec.to_builtins(found), what="metadata")
    if not data:
        return None
    size = len(msgspec.json.encode(data))
    if size > MAX_METADATA_BYTES:
        raise LimitExceededError(
            "bytes of metadata", size, MAX_METADATA_BYTES, "send it as a data part"
        )
    return DataPart(data, media_type=METADATA_TYPE)


def metadata_in(part: Part) -> Metadata | None:
    """Return what a part of the bus says about others; None where it is a part like any other."""
    if not isinstance(part, DataPart) or part.media_type != METADATA_TYPE or not fits(part.data):
        return None
    try:
        return msgspec.convert(part.data, Metadata)
    except msgspec.ValidationError:
        # An agent wrote it; nobody else would.
        return None


def metadata_of(parts: Sequence[Part]) -> Metadata:
    """Return everything that *parts* of the bus say about themselves."""
    whole = Metadata()
    for part in parts:
        found = metadata_in(part)
        if found is not None:
            whole.message |= found.message
            whole.parts |= found.parts
            whole.filenames |= found.filenames
    return whole


def fill(target: struct_pb2.Struct, values: dict[str, Any]) -> None:
    """Write metadata as it goes out; what only a gateway says is not taken from others."""
    put(target, {key: item for key, item in values.items() if not key.startswith(_RESERVED)})
