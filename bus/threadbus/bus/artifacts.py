"""Artifacts: content too large for an event, kept once under its SHA-256."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.bus.errors import AppendError, StorageFullError
from threadbus.bus.ports import Backend
from threadbus.bus.settings import BusSettings
from threadbus.bus.store_errors import (
    ArtifactCorruptError,
    ArtifactNotFoundError,
    ArtifactNotStoredError,
    ArtifactTooLargeError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    DataPart,
    FilePart,
    MessagePosted,
    Part,
    Parts,
    ReferencePart,
    SchemaError,
    TextPart,
    encode_event,
    make_event,
    new_task_id,
)

_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_CANNOT_TRAVEL: Final = re.compile("[\x00\ud800-\udfff]")


class Artifacts:
    """The object store as parts of events."""

    def __init__(self, backend: Backend, settings: BusSettings) -> None:
        self._backend = backend
        self._part_max = settings.part_max_bytes
        self._limit = settings.artifact_max_bytes

    @property
    def _inline(self) -> int:
        """Bytes of a part that stays in its event; half of what a small server takes."""
        return min(self._part_max, self._backend.log.max_payload // 2)

    async def put(
        self,
        content: bytes,
        *,
        name: str = "",
        media_type: str = _BYTES,
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
            ArtifactNotStoredError: the server has no room, refused, or did not answer.

        Cancellation: safe; put it again.
        """
        if len(content) > self._limit:
            raise ArtifactTooLargeError(len(content), self._limit)
        digest = await _sha256(content)
        if not await self._backend.objects.exists(digest):
            try:
                await self._backend.objects.put(digest, content)
            except AppendError as error:
                reason = error.reason if isinstance(error, StorageFullError) else str(error)
                raise ArtifactNotStoredError(digest, len(content), reason) from error
        return ReferencePart(
            sha256=digest, size=len(content), name=name, media_type=media_type, of=of
        )

    async def get(self, reference: ReferencePart) -> bytes:
        """Return the bytes that *reference* names, checked against its hash.

        Raises:
            ArtifactNotFoundError: there is no such content.
            ArtifactCorruptError: the bytes were changed or cut.
            ArtifactTooLargeError: it has more bytes than ``artifact_max_bytes``, or is said to.

        Cancellation: safe.
        """
        if reference.size > self._limit:
            raise ArtifactTooLargeError(reference.size, self._limit)
        found = ""
        # Read twice before it is called corrupt: somebody may just have put it a second time.
        for _ in range(2):
            content = await self._backend.objects.get(reference.sha256, self._limit)
            if content is None:
                raise ArtifactNotFoundError(reference.sha256)
            found = await _sha256(content)
            if found == reference.sha256:
                return content
        raise ArtifactCorruptError(reference.sha256, found)

    def fit(self, parts: Sequence[Part]) -> bool:
        """Whether every part is surely small enough to stay in the event."""
        for part in parts:
            # A character takes at most four bytes: no need to encode what is surely small.
            small = isinstance(part, TextPart) and len(part.text) * 4 <= self._inline
            if not small and not isinstance(part, ReferencePart):
                return False
        return True

    async def offload(self, parts: Sequence[Part]) -> Parts:
        """Return *parts* with every one above ``part_max_bytes`` put into the object store.

        Raises:
            ArtifactTooLargeError: one has more bytes than ``artifact_max_bytes``.
            SchemaError: data that no event could carry.
        """
        return tuple([await self._offload(part) for part in parts])

    async def _offload(self, part: Part) -> Part:
        if isinstance(part, ReferencePart):
            return part
        content = self._outside(part)
        if content is None:
            return part
        if isinstance(part, TextPart):
            return await self.put(content, media_type=part.media_type, of="text")
        of, usual = ("data", _JSON) if isinstance(part, DataPart) else ("file", _BYTES)
        return await self.put(content, name=part.name, media_type=part.media_type or usual, of=of)

    def _outside(self, part: TextPart | DataPart | FilePart) -> bytes | None:
        """Return what of *part* goes to the object store, or None where it stays in the event.

        What cannot travel stays, so that the codec refuses it and says where it is.
        """
        if isinstance(part, TextPart):
            # A character takes at most four bytes: no need to encode what is surely small.
            if len(part.text) * 4 <= self._inline or _CANNOT_TRAVEL.search(part.text):
                return None
            content = part.text.encode()
        elif isinstance(part, DataPart):
            try:
                content = msgspec.json.encode(part.data)
            except (TypeError, ValueError, RecursionError):
                return None
            if len(content) > self._inline:
                _check(part)
        else:
            content = part.content
        return content if len(content) > self._inline else None

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
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
            raise SchemaError(f"artifact {part.sha256} is not {part.of}: {error}") from error
        return FilePart(content, part.name, part.media_type)


def _check(part: DataPart) -> None:
    """Hold *part* to what an event allows, although none will carry it.

    Raises:
        SchemaError: it could not be in an event.
    """
    encode_event(
        make_event(
            MessagePosted(parts=(part,)),
            task=new_task_id(),
            thread=MAIN_THREAD,
            sender=AgentName("artifacts"),
        )
    )


async def _sha256(content: bytes) -> str:
    if len(content) < 1 << 20:
        return hashlib.sha256(content).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
