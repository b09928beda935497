"""What is said to a model and what it answers, apart from any wire.

:mod:`threadbus.agents.model.wire` translates these to the chat completions of an OpenAI-compatible
server and back; nothing else knows that wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self, TypeAlias, cast

import msgspec

from threadbus.agents.errors import BadToolArgumentsError, InvalidSettingError
from threadbus.schemas import MAX_JSON_DEPTH, Parts, text_of

JsonObject: TypeAlias = dict[str, object]

MAX_ARGUMENT_DEPTH: Final = MAX_JSON_DEPTH - 8
"""Levels of JSON in the arguments of one tool call, so that an event can carry them."""

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    """1 to 64 characters: letters, digits, ``_`` and ``-``."""
    description: str = ""
    parameters: JsonObject = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    """JSON Schema of the arguments, of type ``object``."""

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            raise InvalidSettingError(
                "name of a tool", self.name or " ", "1 to 64 letters, digits, '_' and '-'"
            )


class ToolCall(msgspec.Struct, frozen=True):
    """A model's wish to have a tool run."""

    id: str
    """Unique in its message; the result refers to it."""
    name: str
    raw_arguments: str = "{}"
    """The arguments as the model wrote them: JSON if it did well."""

    @property
    def arguments(self) -> JsonObject:
        """The arguments, parsed.

        Raises:
            BadToolArgumentsError: they are not one JSON object that an event could carry. The raw
                text stays in the conversation, so that the model can be told and try again.
        """
        if not self.raw_arguments.strip():
            return {}
        try:
            parsed = msgspec.json.decode(self.raw_arguments.encode(), type=JsonObject)
        except msgspec.ValidationError as error:
            raise self._bad(f"no JSON object ({error})") from error
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise self._bad(f"no JSON ({error})") from error
        except RecursionError as error:
            raise self._bad("nested too deep") from error
        if _depth(parsed) > MAX_ARGUMENT_DEPTH:
            raise self._bad(f"nested deeper than {MAX_ARGUMENT_DEPTH} levels")
        if "\\u0000" in self.raw_arguments and "\\x00" in str(parsed):
            raise self._bad("they hold NUL")
        return parsed

    def _bad(self, reason: str) -> BadToolArgumentsError:
        return BadToolArgumentsError(self.name, self.raw_arguments, reason)


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation with a model."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant wants run; the results must follow at once, one for each."""
    tool_call_id: str = ""
    """Which call a tool's message answers."""

    @classmethod
    def system(cls, content: str | Parts) -> Self:
        """Make a message that instructs the model."""
        return cls(Role.SYSTEM, as_text(content))

    @classmethod
    def user(cls, content: str | Parts) -> Self:
        """Make a message that the model is to answer."""
        return cls(Role.USER, as_text(content))

    @classmethod
    def assistant(cls, content: str | Parts, tool_calls: tuple[ToolCall, ...] = ()) -> Self:
        """Make a message that the model is taken to have said."""
        return cls(Role.ASSISTANT, as_text(content), tool_calls)

    @classmethod
    def tool(cls, tool_call_id: str, content: str | Parts) -> Self:
        """Make the result of one tool call."""
        return cls(Role.TOOL, as_text(content), tool_call_id=tool_call_id)


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call, as the server counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of the input that the server had kept; part of *input_tokens*."""
    reported: bool = False
    """False where the server said nothing: the counts are then 0."""

    @property
    def total(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


class Completion(msgspec.Struct, frozen=True):
    """A model's whole answer."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    """``stop``, ``length`` (cut at the token limit), ``tool_calls``, ``content_filter``…"""
    usage: Usage = Usage()
    model: str = ""
    """The model as the server names it."""
    response_id: str = ""
    system: str = ""
    """Who answered: ``openai``, the host of another server, or ``playbook``: then no model did."""
    attempts: int = 1

    @property
    def message(self) -> ChatMessage:
        """The answer as a message to go on with."""
        return ChatMessage(Role.ASSISTANT, self.text, self.tool_calls)


def as_text(content: str | Parts) -> str:
    """Return *content* as text; parts are joined, and files named in brackets."""
    return content if isinstance(content, str) else text_of(content)


def _depth(value: object) -> int:
    # msgspec has bounded the recursion already.
    inner: Iterable[object]
    match value:
        case dict():
            inner = cast("JsonObject", value).values()
        case list():
            inner = cast("list[object]", value)
        case _:
            return 0
    return 1 + max(map(_depth, inner), default=0)
