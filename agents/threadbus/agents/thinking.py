"""The model as a handler uses it: every call, its tokens and its tools on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from threadbus.agents.errors import NoModelError
from threadbus.agents.model import (
    ChatMessage,
    Completion,
    JsonObject,
    Model,
    TokenBudget,
    Tool,
    ToolRun,
    ToolSpec,
    run_tools,
)
from threadbus.bus import Bus, PayloadTooLargeError, SteadyLog
from threadbus.schemas import (
    AnyData,
    ContextUsed,
    Event,
    ModelCalled,
    Parts,
    SchemaError,
    ToolCalled,
    ToolReturned,
    as_parts,
    clean_text,
)

_log: Final = SteadyLog("threadbus.agents")


class Thinking:
    """What one turn asks of the model. Made by the runner; one for each turn."""

    def __init__(self, bus: Bus, event: Event, model: Model | None) -> None:
        self._bus = bus
        self._event = event
        self._model = model
        self._budget: TokenBudget | None = None
        self._pending: list[AnyData] = []

    async def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), live: bool = True
    ) -> Completion:
        """Ask the model once.

        Args:
            messages: the conversation.
            tools: what it may call.
            live: stream, and show watchers the text as it comes.

        Raises:
            NoModelError: the agent runs without a model.
            ModelBudgetExceededError: the super-task has used up its tokens.
            ModelError: no usable answer.

        Cancellation: ends the call; it is on record as cancelled.
        """
        model, budget = await self._ready()
        try:
            return await model.complete(
                messages,
                tools=tools,
                on_delta=self._show if live else None,
                on_restart=self._show_restart if live else None,
                on_call=self._pending.append,
                budget=budget,
            )
        finally:
            await self._record()

    async def run(
        self,
        messages: Sequence[ChatMessage],
        tools: Mapping[str, Tool],
        *,
        max_rounds: int = 8,
        concurrency: int = 1,
        live: bool = True,
    ) -> ToolRun:
        """Let the model call tools until it answers without; each call on record.

        Args:
            messages: the conversation.
            tools: name → tool.
            max_rounds: how often the model is called at most.
            concurrency: how many tools of one round run at the same time.
            live: stream, and show watchers the text as it comes.

        Raises:
            ToolRoundsExceededError: it still calls tools in the last round.
            NoModelError, ModelBudgetExceededError, ModelError: see :meth:`complete`.

        Cancellation: ends the model call and the tools that run.
        """
        model, budget = await self._ready()
        try:
            return await run_tools(
                model,
                messages,
                {name: self._recorded(tool) for name, tool in tools.items()},
                max_rounds=max_rounds,
                concurrency=concurrency,
                budget=budget,
                on_delta=self._show if live else None,
                on_restart=self._show_restart if live else None,
                on_call=self._pending.append,
                on_tool_called=self._pending.append,
                on_tool_returned=self._pending.append,
            )
        finally:
            await self._record()

    async def note_context(self, up_to_seq: int, *, events: int = 0, tokens: int = 0) -> None:
        """Record how far into the log what the model was shown reached."""
        self._pending.append(ContextUsed(up_to_seq=up_to_seq, events=events, tokens=tokens))
        await self._record()

    async def _ready(self) -> tuple[Model, TokenBudget]:
        if self._model is None:
            raise NoModelError(self._bus.name)
        if self._budget is None:
            state = await self._bus.tasks.state(self._event.task)
            self._budget = TokenBudget(state.token_budget, state.tokens_used)
        return self._model, self._budget

    def _recorded(self, tool: Tool) -> Tool:
        """Send what is on record so far before a tool runs: it may take long, or end us."""

        async def run(arguments: JsonObject) -> str | Parts:
            await self._record()
            return await tool.run(arguments)

        return Tool(tool.spec, run, tool.timeout)

    async def _show(self, text: str) -> None:
        await self._bus.publish_live(
            self._event.task, self._event.thread, {"kind": "delta", "text": text}
        )

    async def _show_restart(self) -> None:
        """Tell watchers that what they saw of this answer is void: another attempt begins."""
        await self._bus.publish_live(self._event.task, self._event.thread, {"kind": "restart"})

    async def _record(self) -> None:
        while self._pending:
            data = self._pending.pop(0)
            try:
                await self._observe(data)
            except (SchemaError, PayloadTooLargeError) as error:
                # What was seen must not stop what is done: record it without what is too much.
                _log.warning("recorded in part", type=data.TYPE, reason=str(error))
                await self._observe(_without_content(data, str(error)))

    async def _observe(self, data: AnyData) -> None:
        await self._bus.observe(
            data, task=self._event.task, thread=self._event.thread, cause=self._event.id
        )


def _without_content(data: AnyData, reason: str) -> AnyData:
    left_out = clean_text(f"left out: {reason}", 500)
    match data:
        case ToolCalled():
            return msgspec.structs.replace(data, arguments=left_out)
        case ToolReturned():
            return msgspec.structs.replace(data, parts=as_parts(left_out))
        case ModelCalled():
            return msgspec.structs.replace(data, output=as_parts(left_out))
        case _:
            return data
