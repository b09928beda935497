"""A reply as the bytes that go out: one JSON object, or the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import time

import msgspec

from threadbus.agents.model.labels import PLAYBOOK
from threadbus.agents.model.playbook.connection import BrokenOffError
from threadbus.agents.model.playbook.director import Reply

USAGE_RULE = "estimated: one token for every four characters"
_GARBAGE = b"<html>this is not a chat completion</html>"


def error_body(message: str, kind: str, code: str | None = None) -> bytes:
    """Return an error in OpenAI's shape."""
    detail = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": detail})


def whole_body(reply: Reply) -> bytes:
    """Return the answer as one JSON object."""
    text = None if reply.calls and not reply.text else reply.text
    message: dict[str, object] = {"role": "assistant", "content": text}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    body = _envelope(reply, "chat.completion", [choice])
    if reply.usage is not None:
        body["usage"] = _usage(reply)
    return msgspec.json.encode(body)


def whole(reply: Reply, body: bytes) -> Iterator[bytes | float]:
    """Yield *body*, or what the play makes of it.

    Raises:
        BrokenOffError: the play closes the connection here.
    """
    fail = reply.fail
    if fail is not None and fail.garbage:
        yield _GARBAGE
    elif fail is not None and fail.cut_after is not None:
        yield body[: fail.cut_after]
        raise BrokenOffError
    else:
        yield body


def events(reply: Reply, *, include_usage: bool) -> Iterator[bytes | float]:
    """Yield the answer as server-sent events, or what the play makes of it; numbers are pauses.

    Raises:
        BrokenOffError: the play closes the connection here.
    """
    fail = reply.fail
    cut = len(reply.text) if fail is None or fail.cut_after is None else fail.cut_after
    yield _delta(reply, {"role": "assistant", "content": ""})
    for start in range(0, min(len(reply.text), cut), reply.chunk_chars):
        if start and reply.chunk_delay_ms:
            yield reply.chunk_delay_ms / 1_000
        end = min(start + reply.chunk_chars, cut)
        yield _delta(reply, {"content": reply.text[start:end]})
    if fail is not None and fail.garbage:
        yield b"data: " + _GARBAGE + b"\n\n"
    if fail is not None and fail.cut_after is not None:
        raise BrokenOffError
    for index, call in enumerate(reply.calls):
        opening = {"name": call.tool, "arguments": ""}
        start_of_call = {"index": index, "id": call.id, "type": "function", "function": opening}
        yield _delta(reply, {"tool_calls": [start_of_call]})
        for start in range(0, len(call.arguments), reply.chunk_chars):
            piece = {"arguments": call.arguments[start : start + reply.chunk_chars]}
            yield _delta(reply, {"tool_calls": [{"index": index, "function": piece}]})
    yield _delta(reply, {}, reply.finish_reason)
    if include_usage and reply.usage is not None:
        body = _envelope(reply, "chat.completion.chunk", [])
        body["usage"] = _usage(reply)
        yield _event(body)
    yield b"data: [DONE]\n\n"


def _delta(reply: Reply, delta: dict[str, object], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(_envelope(reply, "chat.completion.chunk", [choice]))


def _event(body: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _envelope(
    reply: Reply, kind: str, choices: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    return {
        "id": reply.id,
        "object": kind,
        "created": int(time()),
        "model": PLAYBOOK,
        "system_fingerprint": PLAYBOOK,
        "choices": choices,
        PLAYBOOK: {"play": reply.play, "usage": USAGE_RULE},
    }


def _usage(reply: Reply) -> dict[str, object]:
    usage = reply.usage
    assert usage is not None  # noqa: S101 - both callers have looked
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
