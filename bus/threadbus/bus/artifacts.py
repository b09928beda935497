"""Artifacts: content too large for an event, kept once under its SHA-256."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec

from threadbus.bus.errors import (
    ArtifactCorruptError,
    ArtifactNotFoundError,
    ArtifactTooLargeError,
)
from threadbus.bus.ports import ObjectPort
from threadbus.bus.settings import BusSettings
from threadbus.schemas import (
    DataPart,
    FilePart,
    Part,
    Parts,
    ReferencePart,
    SchemaError,
    TextPart,
)

_JSON = "application/json"


class Artifacts:
    """The object store as parts of events."""

    def __init__(self, objects: ObjectPort, settings: BusSettings) -> None:
        self._objects = objects
        self._inline = settings.part_max_bytes
        self._limit = settings.artifact_max_bytes

    async def put(
        self,
        content: bytes,
        *,
        name: str = "",
        media_type: str = "application/octet-stream",
        of: str = "file",
    ) -> ReferencePart:
        """Store *content* and return a part that names it. Idempotent: one content, one object.

        Args:
            content: the bytes.
            name: a file name for people; it is not how the content is found.
            media_type: its MIME type.
            of: which kind of part it stands for: ``file``, ``text`` or ``data``.

        Raises:
            ArtifactTooLargeError: more bytes than ``artifact_max_bytes``.

        Cancellation: safe; put it again.
        """
        if len(content) > self._limit:
            raise ArtifactTooLargeError(len(content), self._limit)
        digest = await _sha256(content)
        if not await self._objects.exists(digest):
            await self._objects.put(digest, content)
        return ReferencePart(
            sha256=digest, size=len(content), name=name, media_type=media_type, of=of
        )

    async def get(self, reference: ReferencePart) -> bytes:
        """Return the bytes that *reference* names, checked against its hash.

        Raises:
            ArtifactNotFoundError: there is no such content.
            ArtifactCorruptError: the bytes were changed or cut.
            ArtifactTooLargeError: the reference says more than ``artifact_max_bytes``.

        Cancellation: safe.
        """
        if reference.size > self._limit:
            raise ArtifactTooLargeError(reference.size, self._limit)
        content = await self._objects.get(reference.sha256, self._limit)
        if content is None:
            raise ArtifactNotFoundError(reference.sha256)
        found = await _sha256(content)
        if found != reference.sha256:
            raise ArtifactCorruptError(reference.sha256, found)
        return content

    async def offload(self, parts: Sequence[Part]) -> Parts:
        """Return *parts* with every one above ``part_max_bytes`` put into the object store."""
        return tuple([await self._offload(part) for part in parts])

    async def _offload(self, part: Part) -> Part:
        if isinstance(part, ReferencePart):
            return part
        if isinstance(part, TextPart):
            # A character takes at most four bytes: no need to encode what is surely small.
            if len(part.text) * 4 <= self._inline:
                return part
            content, name, media_type, of = _utf8(part.text), "", part.media_type, "text"
        elif isinstance(part, DataPart):
            content = msgspec.json.encode(part.data)
            name, media_type, of = part.name, part.media_type or _JSON, "data"
        else:
            content, name, media_type, of = part.content, part.name, part.media_type, "file"
        if len(content) <= self._inline:
            return part
        return await self.put(content, name=name, media_type=media_type, of=of)

    async def load(self, part: Part) -> Part:
        """Return the part that a reference stands for; any other part as it is.

        Raises:
            ArtifactError: see :meth:`get`.
            SchemaError: the content is not what the reference says.
        """
        if not isinstance(part, ReferencePart):
            return part
        content = await self.get(part)
        try:
            if part.of == "text":
                return TextPart(content.decode(), part.media_type)
            if part.of == "data":
                return DataPart(msgspec.json.decode(content), part.name, part.media_type)
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise SchemaError(f"artifact {part.sha256} is not {part.of}: {error}") from error
        return FilePart(content, part.name, part.media_type)


def _utf8(text: str) -> bytes:
    # The codec names a lone surrogate with its position when the event is encoded.
    return text.encode("utf-8", "surrogatepass")


async def _sha256(content: bytes) -> str:
    if len(content) < 1 << 20:
        return hashlib.sha256(content).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
