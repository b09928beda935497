"""Tools that a model may call, and the loop that runs them until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from time import perf_counter_ns
from typing import Final, TypeAlias, TypeVar

import msgspec

from threadbus.agents.errors import (
    BadToolArgumentsError,
    InvalidSettingError,
    ToolRoundsExceededError,
    ToolTimeoutError,
    UnknownToolError,
)
from threadbus.agents.model.budget import TokenBudget
from threadbus.agents.model.call import OnDelta, OnRestart, awaited
from threadbus.agents.model.client import Model, OnCall
from threadbus.agents.model.messages import (
    ChatMessage,
    Completion,
    JsonObject,
    ToolCall,
    ToolSpec,
)
from threadbus.schemas import (
    MAX_PARTS,
    ErrorInfo,
    LimitExceededError,
    Part,
    Parts,
    TextPart,
    ToolCalled,
    ToolReturned,
    as_parts,
    clean_text,
    text_of,
)

RunTool: TypeAlias = Callable[[JsonObject], Awaitable[str | Parts]]
OnToolCalled: TypeAlias = Callable[[ToolCalled], Awaitable[None] | None]
OnToolReturned: TypeAlias = Callable[[ToolReturned], Awaitable[None] | None]

MAX_RESULT_CHARS: Final = 100_000
"""Characters of one tool's result that the model is shown."""
_MAX_ERROR_CHARS: Final = 2_000

_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


class Tool(msgspec.Struct, frozen=True):
    """A tool: what the model is told of it, and what runs when it is called."""

    spec: ToolSpec
    run: RunTool
    timeout: timedelta = timedelta(seconds=120)
    """How long one run may take; the model is told when it took longer."""


class ToolRun(msgspec.Struct, frozen=True):
    """How a conversation with tools ended."""

    completion: Completion
    """The last answer: the one without tool calls."""
    messages: tuple[ChatMessage, ...]
    """The whole conversation, the last answer included."""
    rounds: int
    """How often the model was called."""

    @property
    def text(self) -> str:
        """What the model said in the end."""
        return self.completion.text


def make_tool(
    name: str,
    description: str,
    arguments: type[_Arguments],
    run: Callable[[_Arguments], Awaitable[str | Parts]],
    *,
    timeout: timedelta = timedelta(seconds=120),
) -> Tool:
    """Make a tool whose arguments are a msgspec struct.

    The JSON Schema is that of the struct, and *run* only ever sees arguments that fit it: the model
    is told what is wrong with others.
    """
    (schema,), components = msgspec.json.schema_components(
        [arguments], ref_template="#/$defs/{name}"
    )
    own = components.pop(schema["$ref"].rpartition("/")[2])
    parameters: JsonObject = own | ({"$defs": components} if components else {})

    async def checked(raw: JsonObject) -> str | Parts:
        try:
            fitting = msgspec.convert(raw, arguments, strict=False)
        except msgspec.ValidationError as error:
            text = msgspec.json.encode(raw).decode()
            raise BadToolArgumentsError(name, text, str(error)) from error
        return await run(fitting)

    return Tool(ToolSpec(name, description, parameters), checked, timeout)


async def run_tools(
    model: Model,
    messages: Sequence[ChatMessage],
    tools: Mapping[str, Tool],
    *,
    max_rounds: int = 8,
    concurrency: int = 1,
    budget: TokenBudget | None = None,
    on_delta: OnDelta | None = None,
    on_restart: OnRestart | None = None,
    on_call: OnCall | None = None,
    on_tool_called: OnToolCalled | None = None,
    on_tool_returned: OnToolReturned | None = None,
    extra: JsonObject | None = None,
) -> ToolRun:
    """Let the model call tools until it answers without.

    A tool that is not there, arguments that are not JSON, and whatever a tool raises become the
    result of that call, so that the model can do better; each call is followed by its result.

    Args:
        model: asked once a round.
        messages: the conversation so far.
        tools: name → tool; the names are those that the model is told.
        max_rounds: how often the model is called at most; 1 or more.
        concurrency: how many calls of one round run at the same time; 1 or more.
        budget: the tokens of the super-task, checked before each round.
        on_delta: gets the text of every round as it comes.
        on_restart: told that the deltas of this round so far are void.
        on_call: gets the record of each model call.
        on_tool_called: gets each tool call just before it runs.
        on_tool_returned: gets each tool call when it has run.
        extra: more fields of every request.

    Returns:
        The last answer, and the conversation that led to it.

    Raises:
        ToolRoundsExceededError: the model still calls tools in the last round.
        ModelError: as :meth:`Model.complete`.

    Cancellation:
        Ends the model call and the tools that run; what has run stays done.
    """
    runner = _Runner(tools, concurrency, on_tool_called, on_tool_returned)
    if max_rounds < 1:
        raise InvalidSettingError("max_rounds", str(max_rounds), "it must be 1 or more")
    told: list[ChatMessage] = list(messages)
    rounds = 0
    while True:
        rounds += 1
        completion = await model.complete(
            told,
            tools=[tool.spec for tool in tools.values()],
            on_delta=on_delta,
            on_restart=on_restart,
            on_call=on_call,
            budget=budget,
            extra=extra,
        )
        told.append(completion.message)
        if not completion.tool_calls:
            return ToolRun(completion, tuple(told), rounds)
        if rounds == max_rounds:
            raise ToolRoundsExceededError(
                rounds, tuple(call.name for call in completion.tool_calls)
            )
        told.extend(await runner.run(completion.tool_calls))


class _Runner:
    """Runs the tool calls of one answer and makes a message of each result."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        concurrency: int,
        on_called: OnToolCalled | None,
        on_returned: OnToolReturned | None,
    ) -> None:
        if concurrency < 1:
            raise InvalidSettingError("concurrency", str(concurrency), "it must be 1 or more")
        for name, tool in tools.items():
            if name != tool.spec.name:
                raise InvalidSettingError(
                    "name of a tool", name, f"its spec says {tool.spec.name!r}; both must be equal"
                )
        self._tools = tools
        self._slots = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        self._on_called = on_called
        self._on_returned = on_returned

    async def run(self, calls: Sequence[ToolCall]) -> list[ChatMessage]:
        """Return the results of *calls*, in their order."""
        if self._concurrency == 1 or len(calls) == 1:
            return [await self._run(call) for call in calls]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._run(call), name=f"threadbus.tool[{call.name}]")
                    for call in calls
                ]
        except BaseExceptionGroup as failed:
            # A tool's own errors never get here, only those of the hooks.
            raise failed.exceptions[0] from failed
        return [task.result() for task in tasks]

    async def _run(self, call: ToolCall) -> ChatMessage:
        async with self._slots:
            try:
                arguments: object = call.arguments
            except BadToolArgumentsError:
                arguments = call.raw_arguments
            if self._on_called is not None:
                record = ToolCalled(call_id=call.id, tool=call.name, arguments=arguments)
                await awaited(self._on_called(record))
            start = perf_counter_ns()
            parts: Parts = ()
            failure: ErrorInfo | None = None
            try:
                parts = await self._result(call)
            # Whatever a tool raises is for the model to deal with.
            except Exception as error:
                message = _cut(clean_text(str(error)), _MAX_ERROR_CHARS)
                failure = ErrorInfo(type(error).__name__, message)
            if self._on_returned is not None:
                returned = ToolReturned(
                    call_id=call.id,
                    tool=call.name,
                    duration_ns=perf_counter_ns() - start,
                    parts=parts,
                    error=failure,
                )
                await awaited(self._on_returned(returned))
        if failure is not None:
            return ChatMessage.tool(call.id, f"error: {failure.kind}: {failure.message}")
        return ChatMessage.tool(call.id, _cut(text_of(parts), MAX_RESULT_CHARS))

    async def _result(self, call: ToolCall) -> Parts:
        tool = self._tools.get(call.name)
        if tool is None:
            raise UnknownToolError(call.name, tuple(self._tools))
        limit = asyncio.timeout(tool.timeout.total_seconds())
        try:
            async with limit:
                content = await tool.run(call.arguments)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolTimeoutError(call.name, tool.timeout.total_seconds()) from error
        parts = tuple(_clean(part) for part in as_parts(content))
        if len(parts) > MAX_PARTS:
            raise LimitExceededError("parts of one result", len(parts), MAX_PARTS, "join them")
        return parts


def _clean(part: Part) -> Part:
    if isinstance(part, TextPart):
        return TextPart(clean_text(part.text), part.media_type)
    return part


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: the first {limit:,} of {len(text):,} characters]"
