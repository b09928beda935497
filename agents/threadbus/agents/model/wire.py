"""The answers of OpenAI-compatible servers, from bytes to checked structs.

Servers differ, and none is trusted: an answer is checked against the structs below, and what common
servers leave out or do otherwise is tolerated where it is harmless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Final

import msgspec

from threadbus.agents.model.messages import JsonObject
from threadbus.schemas import shorten

_DRAIN_S: Final = 0.2


class TransientError(Exception):
    """An attempt failed in a way that another one may not."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, timed_out: bool = False
    ) -> None:
        super().__init__(reason, retry_after, timed_out)
        self.reason = reason
        self.retry_after = retry_after
        """Seconds that the server asks to wait."""
        self.timed_out = timed_out

    def __str__(self) -> str:
        return self.reason


class WireFunction(msgspec.Struct):
    name: str | None = None
    # A string by the specification; some servers send the object itself.
    arguments: str | JsonObject | None = None


class WireToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None


class WireContentPart(msgspec.Struct):
    text: str | None = None


class WireMessage(msgspec.Struct):
    content: str | list[WireContentPart] | None = None
    refusal: str | None = None
    tool_calls: list[WireToolCall] | None = None


class WireChoice(msgspec.Struct):
    index: int = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None


class WireTokenDetails(msgspec.Struct):
    cached_tokens: int | None = None


class WireUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: WireTokenDetails | None = None


class WireErrorBody(msgspec.Struct):
    message: str | None = None
    code: str | int | None = None


class Answer(msgspec.Struct):
    """A whole answer, or one chunk of a stream."""

    id: str | None = None
    model: str | None = None
    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None
    system_fingerprint: str | None = None
    error: WireErrorBody | str | None = None


def decode_answer(body: bytes) -> Answer:
    """Decode a whole answer or one chunk.

    Raises:
        TransientError: it is not one, or it is an error.
    """
    try:
        answer = _decode(body)
    except (ValueError, RecursionError) as error:
        seen = shorten(body[:80].decode("utf-8", "replace"))
        raise TransientError(
            f"it answered with something that is not a chat completion ({error}): {seen!r}"
        ) from error
    if answer.error is not None and not answer.choices:
        said = answer.error if isinstance(answer.error, str) else answer.error.message
        raise TransientError(f"it reported an error: {shorten(said or 'without a message', 300)}")
    return answer


def _decode(body: bytes) -> Answer:
    try:
        return msgspec.json.decode(body, type=Answer, strict=False)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses one half of a surrogate pair, which some servers send in a delta.
        return msgspec.convert(json.loads(body), Answer, strict=False)


async def server_sent_events(
    chunks: AsyncIterator[bytes], limit: int
) -> AsyncGenerator[bytes, None]:
    """Yield the data of each event of a stream, up to ``[DONE]`` or the end.

    Raises:
        TransientError: an event has more than *limit* bytes.
    """
    rest = b""
    data: list[bytes] = []
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) + sum(map(len, data)) > limit:
            raise TransientError(f"it sent an event of more than {limit:,} bytes")
        for line in lines:
            text = line.rstrip(b"\r")
            if text.startswith(b"data:"):
                data.append(text[5:].removeprefix(b" "))
            elif not text and data:
                if data[0].strip() == b"[DONE]":
                    await _drain(chunks)
                    return
                yield b"\n".join(data)
                data = []
    if data and data[0].strip() != b"[DONE]":
        yield b"\n".join(data)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    # Only a body that was read to its end lets the connection be used again.
    with suppress(TimeoutError, TransientError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass
