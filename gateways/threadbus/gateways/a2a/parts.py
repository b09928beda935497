"""Parts of A2A messages to parts of bus events and back: pure functions.

| A2A | bus |
|---|---|
| ``text`` | text |
| ``data`` | data; integers exact at any size; what is nested too deeply goes out as ``raw`` |
| ``raw`` with ``filename`` | file |
| ``url`` | data of the media type :data:`LINK`; nothing is fetched |
| ``metadata`` of the message and of parts | data of the type ``METADATA_TYPE``, once, at the end |

A part whose bytes are in the object store goes out as a ``url`` of this gateway, unless it was
loaded before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf import struct_pb2

from threadbus.gateways.a2a.metadata import fill, gathered, metadata_in, metadata_of
from threadbus.gateways.a2a.values import fits, from_value, to_value
from threadbus.gateways.errors import ForeignPartError
from threadbus.gateways.text import bounded_text, clean_json
from threadbus.schemas import (
    MAX_PARTS,
    MAX_WORD_CHARS,
    METADATA_TYPE,
    DataPart,
    FilePart,
    Part,
    Parts,
    ReferencePart,
    TextPart,
    clean_text,
)

LINK: Final = "application/vnd.threadbus.link+json"
"""The media type of a data part that stands for content somewhere else."""

PLAIN_MESSAGE: Final = "text/plain; a2a=message"
"""The media type of a text that is a message to an A2A client, and no result of a task.

An answer that begins with one, in a task where nothing else was said or made, is what the client
gets for its own message, in place of the task.
"""

_TEXT: Final = "text/plain"
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"


def to_bus(parts: Sequence[pb.Part], metadata: struct_pb2.Struct | None = None) -> Parts:
    """Return the parts of a foreign message as the bus has them.

    Args:
        parts: the parts; what they say about themselves becomes one more part, the last.
        metadata: what is said about all of them, which goes there too.

    Raises:
        ForeignPartError: one has no content, or there are none, or too many.
        LimitExceededError: one is too long or nested too deeply.
    """
    if not 1 <= len(parts) <= MAX_PARTS:
        raise ForeignPartError(f"{len(parts)} parts", f"a message has 1 to {MAX_PARTS}")
    about = gathered(parts, metadata)
    if about is not None and len(parts) == MAX_PARTS:
        most = f"with metadata a message has 1 to {MAX_PARTS - 1}"
        raise ForeignPartError(f"{len(parts)} parts", most)
    found = [_to_bus(number, part) for number, part in enumerate(parts)]
    return (*found, *((about,) if about is not None else ()))


def _to_bus(number: int, part: pb.Part) -> Part:
    name = clean_text(part.filename, MAX_WORD_CHARS)
    media_type = clean_text(part.media_type, MAX_WORD_CHARS)
    match part.WhichOneof("content"):
        case "text":
            return TextPart(bounded_text(f"parts[{number}].text", part.text), media_type or _TEXT)
        case "raw":
            return FilePart(part.raw, name, media_type or _BYTES)
        case "data":
            value = clean_json(from_value(part.data), what=f"parts[{number}].data")
            # What is said about parts is not said by one of them.
            is_about = media_type == METADATA_TYPE
            return DataPart(value, name, _JSON if is_about else media_type or _JSON)
        case "url":
            link = {"url": bounded_text(f"parts[{number}].url", part.url, 8192)}
            if media_type:
                link["mediaType"] = media_type
            return DataPart(link, name, LINK)
        case _:
            raise ForeignPartError(f"parts[{number}]", "it has no text, data, raw or url")


def to_a2a(parts: Sequence[Part], link: Callable[[ReferencePart], str]) -> list[pb.Part]:
    """Return parts of the bus as A2A has them.

    Args:
        parts: what an event holds; what was loaded from the object store goes out whole.
        link: the address for content that was not loaded.
    """
    sent = [_to_a2a(part, link) for part in parts if metadata_in(part) is None]
    about = metadata_of(parts)
    for place, one in enumerate(sent):
        fill(one.metadata, about.parts.get(str(place), {}))
        if one.HasField("text") and not one.filename:
            one.filename = about.filenames.get(str(place), "")
    # A message is never without a part.
    return sent or [pb.Part(text="", media_type=_TEXT)]


def _to_a2a(part: Part, link: Callable[[ReferencePart], str]) -> pb.Part:
    match part:
        case TextPart():
            media_type = _TEXT if part.media_type == PLAIN_MESSAGE else part.media_type
            return pb.Part(text=part.text, media_type=media_type)
        case FilePart():
            return pb.Part(raw=part.content, filename=part.name, media_type=part.media_type)
        case ReferencePart():
            return pb.Part(url=link(part), filename=part.name, media_type=part.media_type)
        case DataPart():
            linked = _link_of(part)
            if linked is not None:
                url, media_type = linked
                return pb.Part(url=url, filename=part.name, media_type=media_type)
            if not fits(part.data):
                # A file of it can be read, and the task with it.
                return pb.Part(
                    raw=msgspec.json.encode(part.data),
                    filename=part.name or "data.json",
                    media_type=part.media_type,
                )
            return pb.Part(data=to_value(part.data), filename=part.name, media_type=part.media_type)


def _link_of(part: DataPart) -> tuple[str, str] | None:
    found: object = part.data
    if part.media_type != LINK or not isinstance(found, dict):
        return None
    data = cast("dict[str, Any]", found)
    url, media_type = data.get("url"), data.get("mediaType", "")
    return (url, media_type) if isinstance(url, str) and isinstance(media_type, str) else None
