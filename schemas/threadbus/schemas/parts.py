"""What a message, question, result or answer is made of: text, data, files and references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from threadbus.schemas.bounds import Count, Sha256, Word

METADATA_TYPE: Final = "application/vnd.threadbus.metadata+json"
"""The media type of a data part with what another protocol says about a message and its parts.

It is for programs: no part of the text.
"""

PartKind = Annotated[str, msgspec.Meta(pattern=r"^(text|data|file)\Z")]


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="kind", omit_defaults=True):
    """Text for a person or a model."""

    text: str
    media_type: Word = "text/plain"


class DataPart(msgspec.Struct, frozen=True, tag="data", tag_field="kind", omit_defaults=True):
    """A JSON value: null, true, false, a number, a string, an array or an object.

    Integers are exact at any size here, but many languages keep 53 or 64 bits of them. NaN and the
    infinities are not JSON; send null or a string.
    """

    data: Any
    name: Word = ""
    media_type: Word = "application/json"


class FilePart(msgspec.Struct, frozen=True, tag="file", tag_field="kind", omit_defaults=True):
    """A small file inside the event (base64 in JSON)."""

    content: bytes
    name: Word = ""
    media_type: Word = "application/octet-stream"


class ReferencePart(
    msgspec.Struct, frozen=True, tag="reference", tag_field="kind", omit_defaults=True
):
    """A part whose bytes are in the object store, named by the SHA-256 of its content."""

    sha256: Sha256
    size: Count
    """Bytes of the content."""
    name: Word = ""
    media_type: Word = "application/octet-stream"
    of: PartKind = "file"
    """Which kind of part it stands for: ``text``, ``data`` or ``file``."""


Part: TypeAlias = TextPart | DataPart | FilePart | ReferencePart
Parts: TypeAlias = tuple[Part, ...]


def as_parts(content: str | Part | Sequence[Part]) -> Parts:
    """Return *content* as a tuple of parts; a string becomes one text part."""
    if isinstance(content, str):
        return (TextPart(content),)
    if isinstance(content, TextPart | DataPart | FilePart | ReferencePart):
        return (content,)
    return tuple(content)


def text_of(parts: Sequence[Part]) -> str:
    """Return the text of *parts* joined by newlines, other kinds named in brackets.

    What is only about them (:data:`METADATA_TYPE`) is left out.
    """
    return "\n".join(_part_text(part) for part in parts if part.media_type != METADATA_TYPE)


def _part_text(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case DataPart():
            return msgspec.json.encode(part.data).decode()
        case FilePart():
            return f"[file {part.name or 'unnamed'}, {part.media_type}, {len(part.content)} bytes]"
        case ReferencePart():
            return (
                f"[{part.of} {part.name or part.sha256[:12]}, {part.media_type}, {part.size} bytes]"
            )
