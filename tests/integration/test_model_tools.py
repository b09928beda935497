"""Tools that a model calls: the loop, its records, and whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import msgspec
import pytest

from tests.support.model_servers import playing, settings_for
from threadbus.agents.model import (
    ChatMessage,
    JsonObject,
    Model,
    Role,
    Tool,
    ToolRun,
    ToolSpec,
    make_tool,
    run_tools,
)
from threadbus.schemas import DataPart, ErrorInfo, Parts, TextPart, ToolCalled, ToolReturned

ASK = [ChatMessage.user("What is in sales.csv?")]

CALL_THEN_TELL = """
    [[play]]
    step = 1
    [[play.call]]
    tool = "{tool}"
    {arguments}
    [[play]]
    step = 2
    text = "It says: {{{{ last }}}}"
"""


class ReadCsv(msgspec.Struct):
    """Arguments of a tool."""

    path: str
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10


async def read_csv(arguments: ReadCsv) -> str:
    """Return what a tool would."""
    return f'{{"path": "{arguments.path}", "total": 1234567}}'


READ_CSV = make_tool("read_csv", "Read a table.", ReadCsv, read_csv)


async def tell(toml: str, tools: list[Tool], *, timeout: float = 20) -> ToolRun:
    """Run *tools* against the playbook *toml*."""
    async with (
        asyncio.timeout(timeout),
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        return await run_tools(model, ASK, {tool.spec.name: tool for tool in tools})


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_model_calls_tools_until_it_answers(streamed: bool) -> None:
    """Each call is followed by its result; the hooks see both, in order."""
    toml = """
        [[play]]
        step = 1
        text = "Let me look."
        [[play.call]]
        tool = "read_csv"
        arguments = { path = "sales.csv" }
        [[play.call]]
        tool = "read_csv"
        arguments = { path = "more.csv", limit = 3 }
        [[play]]
        step = 2
        text = "{{ results.0.json.path }}: {{ tool.read_csv.json.total | thousands }}"
    """
    seen: list[ToolCalled | ToolReturned] = []
    deltas: list[str] = []
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        run = await run_tools(
            model,
            ASK,
            {"read_csv": READ_CSV},
            on_tool_called=seen.append,
            on_tool_returned=seen.append,
            on_delta=deltas.append if streamed else None,
        )

    assert (run.text, run.rounds) == ("sales.csv: 1,234,567", 2)
    assert "".join(deltas) == ("Let me look.sales.csv: 1,234,567" if streamed else "")
    assert [message.role for message in run.messages] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    ids = [call.id for call in run.messages[1].tool_calls]
    assert [message.tool_call_id for message in run.messages[2:4]] == ids
    first, returned, second, _ = seen
    assert first == ToolCalled(call_id=ids[0], tool="read_csv", arguments={"path": "sales.csv"})
    assert second == ToolCalled(
        call_id=ids[1], tool="read_csv", arguments={"path": "more.csv", "limit": 3}
    )
    assert isinstance(returned, ToolReturned)
    assert returned.duration_ns > 0
    assert returned == ToolReturned(
        call_id=ids[0],
        tool="read_csv",
        duration_ns=returned.duration_ns,
        parts=(TextPart('{"path": "sales.csv", "total": 1234567}'),),
    )


async def test_hooks_may_be_coroutines() -> None:
    """They are awaited where they stand: an event is in the log before the tool runs."""
    order: list[str] = []

    async def called(record: ToolCalled) -> None:
        await asyncio.sleep(0)
        order.append(f"called {record.tool}")

    async def returned(record: ToolReturned) -> None:
        await asyncio.sleep(0)
        order.append(f"returned {record.tool}")

    async def run(_: JsonObject) -> str:
        order.append("runs")
        return "done"

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        await run_tools(
            model,
            ASK,
            {"work": Tool(ToolSpec("work"), run)},
            on_tool_called=called,
            on_tool_returned=returned,
        )

    assert order == ["called work", "runs", "returned work"]


async def test_parts_become_text_for_the_model() -> None:
    """The record keeps the parts."""
    parts: Parts = (TextPart("Table\0"), DataPart({"rows": 2}))
    seen: list[ToolReturned] = []

    async def run(_: JsonObject) -> Parts:
        return parts

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        outcome = await run_tools(
            model, ASK, {"work": Tool(ToolSpec("work"), run)}, on_tool_returned=seen.append
        )

    assert outcome.text == 'It says: Table\ufffd\n{"rows":2}'
    assert seen[0].parts == (TextPart("Table\ufffd"), DataPart({"rows": 2}))


@pytest.mark.parametrize("error", [ValueError("no such file"), TimeoutError("its own")])
async def test_what_a_tool_raises_is_told_to_the_model(error: Exception) -> None:
    """And recorded; the conversation goes on."""
    seen: list[ToolReturned] = []

    async def run(_: JsonObject) -> str:
        raise error

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        outcome = await run_tools(
            model, ASK, {"work": Tool(ToolSpec("work"), run)}, on_tool_returned=seen.append
        )

    assert outcome.text == f"It says: error: {type(error).__name__}: {error}"
    assert seen[0].error == ErrorInfo(type(error).__name__, str(error))
    assert seen[0].parts == ()


async def test_an_endless_error_is_cut() -> None:
    """A model has no use for megabytes of it."""

    async def run(_: JsonObject) -> str:
        raise ValueError("x" * 1_000_000)

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    outcome = await tell(toml, [Tool(ToolSpec("work"), run)])

    assert len(outcome.text) < 2_200
    assert "the first 2,000 of 1,000,000 characters" in outcome.text


async def test_an_endless_result_is_cut_for_the_model() -> None:
    """It is told how much there was."""

    async def run(_: JsonObject) -> str:
        return "z" * 150_000

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    outcome = await tell(toml, [Tool(ToolSpec("work"), run)])

    assert outcome.text.endswith("[cut: the first 100,000 of 150,000 characters]")
    assert outcome.text.count("z") == 100_000


async def test_too_many_parts_are_an_error_of_the_tool() -> None:
    """No event could carry them."""

    async def run(_: JsonObject) -> Parts:
        return (TextPart("a"),) * 65

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    outcome = await tell(toml, [Tool(ToolSpec("work"), run)])

    assert "parts of one result: 65 is over the limit of 64" in outcome.text


async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    """The model is told how long it had."""
    stopped = asyncio.Event()

    async def run(_: JsonObject) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    toml = CALL_THEN_TELL.format(tool="work", arguments="")
    tool = Tool(ToolSpec("work"), run, timedelta(seconds=0.05))
    outcome = await tell(toml, [tool])

    assert stopped.is_set()
    assert "'work' took longer than 0.05 s" in outcome.text


async def test_a_tool_that_is_not_there_is_told_with_those_that_are() -> None:
    """So that the model can pick another one."""
    toml = CALL_THEN_TELL.format(tool="read_cvs", arguments="")
    outcome = await tell(toml, [READ_CSV])

    assert "there is no tool 'read_cvs'; the tools are read_csv; did you mean" in outcome.text


async def test_arguments_that_are_not_json_can_be_mended_by_the_model() -> None:
    """It is told what it wrote; the record has the raw text."""
    toml = """
        [[play]]
        step = 1
        [[play.call]]
        tool = "read_csv"
        raw_arguments = "{'path': 'sales.csv'}"
        [[play]]
        step = 2
        when = "cannot be used: no JSON .*'path': 'sales.csv'"
        [[play.call]]
        tool = "read_csv"
        arguments = { path = "sales.csv" }
        [[play]]
        step = 3
        text = "{{ last.json.total }}"
    """
    seen: list[ToolCalled] = []
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        outcome = await run_tools(model, ASK, {"read_csv": READ_CSV}, on_tool_called=seen.append)

    assert outcome.text == "1234567"
    assert [record.arguments for record in seen] == [
        "{'path': 'sales.csv'}",
        {"path": "sales.csv"},
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("arguments = { limit = 3 }", "missing required field `path`"),
        ('arguments = { path = "a", limit = 0 }', "Expected `int` >= 1 - at `$.limit`"),
        ("arguments = { path = 3 }", "Expected `str`, got `int` - at `$.path`"),
    ],
)
async def test_arguments_that_do_not_fit_the_struct_are_told(arguments: str, said: str) -> None:
    """With the place and what is expected."""
    outcome = await tell(CALL_THEN_TELL.format(tool="read_csv", arguments=arguments), [READ_CSV])

    assert "BadToolArgumentsError" in outcome.text
    assert said in outcome.text


def test_the_schema_of_a_tool_is_that_of_its_struct() -> None:
    """An object at the top, with what it refers to below."""

    class Outer(msgspec.Struct):
        inner: list[ReadCsv]

    async def run(_: Outer) -> str:
        return ""

    schema = make_tool("t", "T", Outer, run).spec.parameters

    assert (schema["type"], schema["required"]) == ("object", ["inner"])
    assert schema["properties"] == {
        "inner": {"type": "array", "items": {"$ref": "#/$defs/ReadCsv"}}
    }
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert "ReadCsv" in definitions
    assert "Outer" not in definitions
