"""What clients send to a playbook server, checked as OpenAI's server checks it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MAX_CLIENT_MESSAGES = 10_000


class BadRequestError(ValueError):
    """A request is not one; the client gets a 400."""


class ContentPart(msgspec.Struct, frozen=True):
    """One part of a message; only text counts here."""

    type: str
    text: str = ""


class Function(msgspec.Struct, frozen=True):
    """The function of a tool call."""

    name: str
    arguments: str


class ClientCall(msgspec.Struct, frozen=True):
    """A tool call that an assistant made before."""

    id: str
    function: Function


class ClientMessage(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ClientCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream should have."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of ``POST /v1/chat/completions``; fields that change nothing are left out."""

    model: str
    messages: Annotated[
        list[ClientMessage], msgspec.Meta(min_length=1, max_length=MAX_CLIENT_MESSAGES)
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None


def parse_request(body: bytes) -> ChatRequest:
    """Decode and check a request.

    Raises:
        BadRequestError: it is not JSON, breaks the format, or has tool calls without results.
    """
    try:
        request = msgspec.json.decode(body, type=ChatRequest)
    except RecursionError as error:
        raise BadRequestError("the JSON of the request is nested too deep") from error
    except msgspec.DecodeError as error:
        raise BadRequestError(f"the request is not a chat completion request: {error}") from error
    _check_results(request.messages)
    return request


def _check_results(messages: list[ClientMessage]) -> None:
    """Each tool call is followed at once by its result, as the real server demands."""
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise BadRequestError(
                    f"messages[{number}] has the role 'tool', and its tool_call_id "
                    f"{message.tool_call_id!r} answers no call of the assistant message before it"
                )
            open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            break
        open_calls = {call.id for call in message.tool_calls or ()}
    if open_calls:
        raise BadRequestError(
            "an assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'; these have none: {', '.join(sorted(open_calls))}"
        )
