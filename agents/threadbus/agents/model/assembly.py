"""One completion out of a whole answer or of the chunks of a stream."""

from __future__ import annotations

import json

from threadbus.agents.errors import ModelOutputTooLargeError
from threadbus.agents.model.messages import Completion, ToolCall, Usage
from threadbus.agents.model.wire import Answer, WireMessage, WireToolCall, WireUsage
from threadbus.schemas import clean_text


class _Call:
    """A tool call that is still being put together."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.arguments: list[str] = []


class Assembler:
    """Puts a completion together from a whole answer or from chunks."""

    def __init__(self, server: str, max_chars: int, max_tool_calls: int) -> None:
        self._server = server
        self._max_chars = max_chars
        self._max_tool_calls = max_tool_calls
        self._chars = 0
        self._text: list[str] = []
        self._half = ""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()
        self._finish_reason = ""
        self._is_whole = False
        self._model = ""
        self._id = ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing: a stream has said why it stopped."""
        return self._is_whole

    def feed(self, answer: Answer) -> str:
        """Take in *answer*.

        Returns:
            The text that it adds.

        Raises:
            ModelOutputTooLargeError: there is more now than the limits allow.
        """
        self._id = self._id or _short(answer.id)
        self._model = self._model or _short(answer.model)
        if answer.usage is not None:
            self._usage = _usage(answer.usage)
        added = ""
        for choice in answer.choices or ():
            if choice.index != 0:
                continue
            self._finish_reason = _short(choice.finish_reason) or self._finish_reason
            message = choice.delta or choice.message
            if choice.finish_reason or choice.message:
                self._is_whole = True
            if message is not None:
                added += self._feed_message(message)
        return added

    def _feed_message(self, message: WireMessage) -> str:
        for number, call in enumerate(message.tool_calls or ()):
            self._feed_call(number, call)
        content = message.content
        if isinstance(content, list):
            content = "".join(part.text or "" for part in content)
        text = self._half + (content or message.refusal or "")
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        text = clean_text(text)
        self._count(len(text))
        self._text.append(text)
        return text

    def _feed_call(self, number: int, part: WireToolCall) -> None:
        index = number if part.index is None else part.index
        call = self._by_index.get(index)
        # Some servers give every call of a stream the index 0, and only the ids differ.
        if call is None or (part.id and call.id and part.id != call.id):
            if len(self._calls) >= self._max_tool_calls:
                raise ModelOutputTooLargeError(self._server, "tool calls", self._max_tool_calls)
            call = self._by_index[index] = _Call(_short(part.id))
            self._calls.append(call)
        if part.function is None:
            return
        call.name = call.name or _short(part.function.name)
        arguments = part.function.arguments
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._count(len(text))
            call.arguments.append(text)

    def _count(self, chars: int) -> None:
        self._chars += chars
        if self._chars > self._max_chars:
            raise ModelOutputTooLargeError(self._server, "characters", self._max_chars)

    def completion(self, system: str, attempts: int) -> Completion:
        """Return what has come so far as a whole."""
        return Completion(
            text="".join(self._text) + ("\ufffd" if self._half else ""),
            tool_calls=self._tool_calls(),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            response_id=self._id,
            system=system,
            attempts=attempts,
        )

    def _tool_calls(self) -> tuple[ToolCall, ...]:
        calls: dict[str, ToolCall] = {}
        for number, call in enumerate(self._calls):
            # Results refer to calls by id, and not every server gives different ones.
            call_id = call.id
            while not call_id or call_id in calls:
                call_id = f"{call_id or 'call'}-{number}"
            raw = clean_text("".join(call.arguments))
            calls[call_id] = ToolCall(call_id, clean_text(call.name), raw)
        return tuple(calls.values())


def _usage(usage: WireUsage) -> Usage:
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    return Usage(
        input_tokens=max(0, usage.prompt_tokens or 0),
        output_tokens=max(0, usage.completion_tokens or 0),
        cached_tokens=max(0, cached or 0),
        reported=usage.prompt_tokens is not None or usage.completion_tokens is not None,
    )


def _short(value: str | None) -> str:
    return clean_text(value[:200]) if value else ""
