"""The model port: one call of a model, with its budget and its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import msgspec

from threadbus.agents.model.budget import TokenBudget
from threadbus.agents.model.call import Call, OnDelta, OnRestart
from threadbus.agents.model.messages import ChatMessage, Completion, JsonObject, ToolSpec
from threadbus.agents.model.request import request_body
from threadbus.agents.model.settings import ModelSettings
from threadbus.schemas import ModelCalled

if TYPE_CHECKING:
    from threadbus.agents.model.transport import Transport

OnCall: TypeAlias = Callable[[ModelCalled], None]

_CHARS_PER_TOKEN: Final = 4


class Model:
    """An OpenAI-compatible server, asked on behalf of one agent.

    Use it inside ``async with``; calls may run at the same time.
    """

    def __init__(
        self, settings: ModelSettings, *, agent: str = "", on_call: OnCall | None = None
    ) -> None:
        """Prepare to ask.

        Args:
            settings: where models are, and the bounds of a call.
            agent: who asks; chooses the model, and is told to the server in a header.
            on_call: gets the record of every call, failed ones too, unless the call has its own.
        """
        self._settings = settings
        self._agent = agent
        self._on_call = on_call
        self._transport: Transport | None = None

    @property
    def settings(self) -> ModelSettings:
        """Where models are, and the bounds of a call."""
        return self._settings

    async def __aenter__(self) -> Self:
        # Importing the SDK takes most of a second: not for commands that ask no model.
        from threadbus.agents.model.transport import Transport

        transport = Transport(self._settings, self._agent)
        self._transport = await transport.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.__aexit__(*exc_info)

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        on_delta: OnDelta | None = None,
        on_restart: OnRestart | None = None,
        on_call: OnCall | None = None,
        budget: TokenBudget | None = None,
        model: str = "",
        extra: JsonObject | None = None,
    ) -> Completion:
        """Ask the model to go on with a conversation.

        Args:
            messages: the conversation; each tool call in it is followed by its result.
            tools: what the model may call.
            on_delta: gets the text as it comes; the answer is then streamed.
            on_restart: told that the deltas so far are void: the stream broke, and another attempt
                starts from the beginning.
            on_call: gets the record of this call instead of the model's own hook.
            budget: checked before the call and charged after it. Where the server reports no
                usage, a token for every four characters is charged.
            model: another model than the settings name.
            extra: more fields of the request, such as ``temperature`` or ``response_format``.

        Returns:
            The whole answer. It may hold tool calls, and may be cut (see *finish_reason*).

        Raises:
            ModelRefusedError: the server refuses the request.
            ModelUnavailableError: no attempt gave a usable answer.
            ModelTimeoutError: there was no whole answer in time.
            ModelOutputTooLargeError: the answer is above a limit.
            ModelBudgetExceededError: the budget is used up.
            InvalidSettingError: no model is named.
            InvalidTextError, LimitExceededError: the request cannot be sent.
            RuntimeError: the model is not open.

        Cancellation:
            Ends the request at once; the call is recorded with the error ``CancelledError``, and
            the tokens that the server used for it are not known.
        """
        if self._transport is None:
            raise RuntimeError("the model is not open: use it inside `async with Model(…)`")
        if budget is not None:
            budget.check()
        name = model or self._settings.model_for(self._agent)
        body = request_body(messages, tools, self._bounds(budget) | (extra or {}))
        call = Call(self._transport, self._settings, name, body, on_delta, on_restart)
        record = on_call or self._on_call
        try:
            completion = await call.run()
        except BaseException as error:
            if record is not None:
                record(call.failure(error))
            raise
        called = call.success(completion)
        if not completion.usage.reported:
            called = msgspec.structs.replace(
                called,
                input_tokens=_estimate(messages),
                output_tokens=_estimate([completion.message]),
                estimated=True,
            )
        if budget is not None:
            budget.add(called.input_tokens + called.output_tokens)
        if record is not None:
            record(called)
        return completion

    def _bounds(self, budget: TokenBudget | None) -> JsonObject:
        limit = self._settings.max_output_tokens
        if limit is None:
            return {}
        if budget is not None and budget.remaining is not None:
            limit = min(limit, budget.remaining)
        # OpenAI's newer models refuse the old name, and most other servers do not know the new one.
        return {"max_completion_tokens" if self._settings.is_openai else "max_tokens": limit}


def _estimate(messages: Sequence[ChatMessage]) -> int:
    chars = sum(
        len(message.text) + sum(len(call.raw_arguments) for call in message.tool_calls)
        for message in messages
    )
    return -(-chars // _CHARS_PER_TOKEN)
