"""A conversation as the body of a chat-completions request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.agents.errors import BadToolArgumentsError
from threadbus.agents.model.messages import ChatMessage, JsonObject, Role, ToolCall, ToolSpec
from threadbus.schemas import InvalidTextError, LimitExceededError

MAX_MESSAGES: Final = 10_000
"""Messages in one request."""
MAX_REQUEST_CHARS: Final = 16_000_000
"""Characters in all messages of one request."""
MAX_TOOLS: Final = 128
"""Tools in one request: what OpenAI takes."""


def request_body(
    messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], extra: JsonObject
) -> JsonObject:
    """Build the body of a request, all but the model.

    Raises:
        InvalidTextError: a message holds a lone surrogate.
        LimitExceededError: too many messages, tools or characters.
    """
    for what, count, limit in (
        ("messages in one request", len(messages), MAX_MESSAGES),
        ("characters in one request", sum(len(m.text) for m in messages), MAX_REQUEST_CHARS),
        ("tools in one request", len(tools), MAX_TOOLS),
    ):
        if count > limit:
            raise LimitExceededError(what, count, limit, "send the model less")
    body: JsonObject = {"messages": [_message(i, m) for i, m in enumerate(messages, 1)]}
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in tools
        ]
    return body | extra


def _message(number: int, message: ChatMessage) -> JsonObject:
    try:
        message.text.encode()
    except UnicodeEncodeError as error:
        position = error.start
        raise InvalidTextError(
            f"message {number} to the model", ord(message.text[position]), position
        ) from error
    wire: JsonObject = {"role": message.role.value, "content": message.text}
    if message.role is Role.TOOL:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _echoed_arguments(call)},
            }
            for call in message.tool_calls
        ]
    return wire


def _echoed_arguments(call: ToolCall) -> str:
    # Servers that put earlier calls through a chat template fail on text that is not JSON.
    try:
        call.arguments  # noqa: B018 - the property checks
    except BadToolArgumentsError:
        return msgspec.json.encode({"invalid_arguments": call.raw_arguments[:1_000]}).decode()
    return call.raw_arguments.strip() or "{}"
