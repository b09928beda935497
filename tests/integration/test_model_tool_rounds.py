"""Rounds of tool calls: how many, how many calls at a time, and how they end early."""

from __future__ import annotations

import asyncio

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
    TokenBudget,
    Tool,
    ToolSpec,
    run_tools,
)
from threadbus.schemas import ToolCalled, ToolReturned

ASK = [ChatMessage.user("What is in sales.csv?")]


async def read_nothing(_: JsonObject) -> str:
    """Return what a tool would."""
    return "nothing"


READ_CSV = Tool(ToolSpec("read_csv"), read_nothing)


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
