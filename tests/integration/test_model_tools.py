"""Tools that a model calls: the loop, its records, and whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import msgspec
import pytest

from tests.support.model_servers import ignore, playing, settings_for
from threadbus.agents.errors import (
    InvalidSettingError,
    ModelBudgetExceededError,
    ToolRoundsExceededError,
)
from threadbus.agents.model import (
    ChatMessage,
    JsonObject,
    Model,
    Role,
    TokenBudget,
    Tool,
    ToolRun,
    ToolSpec,
    make_tool,
    run_tools,
)
from threadbus.schemas import DataPart, ErrorInfo, Parts, TextPart, ToolCalled, ToolReturned

pytestmark = pytest.mark.anyio

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


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


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


async def test_the_rounds_have_a_limit() -> None:
    """The error names it, and what the model still wanted."""
    toml = '[[play]]\n[[play.call]]\ntool = "read_csv"\narguments = { path = "{{ turn }}" }'
    seen: list[ToolReturned] = []
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        with pytest.raises(ToolRoundsExceededError, match=r"read_csv.*round 3 of 3"):
            await run_tools(
                model, ASK, {"read_csv": READ_CSV}, max_rounds=3, on_tool_returned=seen.append
            )

    assert len(seen) == 2


async def test_the_budget_ends_the_loop_between_rounds() -> None:
    """Before the model is asked again."""
    toml = '[[play]]\nusage = { input = 50 }\n[[play.call]]\ntool = "read_csv"'
    budget = TokenBudget(limit=100)
    async with playing(toml) as server, Model(settings_for(server.base_url)) as model:
        with pytest.raises(ModelBudgetExceededError, match="100 of 100"):
            await run_tools(model, ASK, {"read_csv": READ_CSV}, budget=budget)


MANY_CALLS = """
    [[play]]
    step = 1
    [[play.call]]
    tool = "work"
    arguments = { n = 1 }
    [[play.call]]
    tool = "work"
    arguments = { n = 2 }
    [[play.call]]
    tool = "work"
    arguments = { n = 3 }
    [[play]]
    text = "{{ results.0 }}{{ results.1 }}{{ results.2 }}"
"""


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_calls_of_one_round_run_as_many_at_a_time_as_allowed(concurrency: int) -> None:
    """Their results keep their order."""
    running = most = 0
    together = asyncio.Barrier(concurrency)

    async def run(arguments: JsonObject) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await together.wait()
        running -= 1
        return str(arguments["n"])

    async with (
        asyncio.timeout(20),
        playing(MANY_CALLS) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        outcome = await run_tools(
            model, ASK, {"work": Tool(ToolSpec("work"), run)}, concurrency=concurrency
        )

    assert (outcome.text, most) == ("123", concurrency)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_what_a_hook_raises_ends_the_loop_as_it_is(concurrency: int) -> None:
    """An event that cannot be appended is not for the model to deal with."""

    def fail(_: ToolCalled) -> None:
        raise OSError("the log is full")

    async with playing(MANY_CALLS) as server, Model(settings_for(server.base_url)) as model:
        with pytest.raises(OSError, match="the log is full"):
            await run_tools(model, ASK, {}, concurrency=concurrency, on_tool_called=fail)


async def test_cancelling_the_loop_cancels_the_tools_that_run() -> None:
    """None of them goes on unseen."""
    started = asyncio.Barrier(4)
    ended: list[object] = []

    async def run(arguments: JsonObject) -> str:
        try:
            await started.wait()
            await asyncio.Event().wait()
        finally:
            ended.append(arguments["n"])
        return "never"

    async with (
        asyncio.timeout(20),
        playing(MANY_CALLS) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        loop = asyncio.create_task(
            run_tools(model, ASK, {"work": Tool(ToolSpec("work"), run)}, concurrency=3)
        )
        await started.wait()
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    assert sorted(map(str, ended)) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [({"max_rounds": 0}, "max_rounds"), ({"concurrency": 0}, "concurrency")],
)
async def test_limits_that_make_no_sense_are_refused(bad: dict[str, int], said: str) -> None:
    """Before anything is asked."""
    model = Model(settings_for("http://127.0.0.1:9/v1"))
    max_rounds, concurrency = bad.get("max_rounds", 8), bad.get("concurrency", 1)
    with pytest.raises(InvalidSettingError, match=said):
        await run_tools(model, ASK, {}, max_rounds=max_rounds, concurrency=concurrency)


async def test_a_tool_goes_by_the_name_that_the_model_is_told() -> None:
    """Another name in the mapping would never be called."""
    model = Model(settings_for("http://127.0.0.1:9/v1"))
    with pytest.raises(InvalidSettingError, match=r"'csv'.*'read_csv'"):
        await run_tools(model, ASK, {"csv": READ_CSV}, on_delta=ignore)
