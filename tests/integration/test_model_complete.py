"""The model port against a playbook server: what a call gives, and what is recorded of it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from time import time_ns

import msgspec
import pytest

from tests.support.model_servers import (
    KEY,
    event_stream,
    http_response,
    ignore,
    playing,
    settings_for,
    speaking,
)
from threadbus.agents.errors import ModelBudgetExceededError, ModelOutputTooLargeError
from threadbus.agents.model import (
    ChatMessage,
    Model,
    ModelSettings,
    TokenBudget,
    ToolCall,
    ToolSpec,
    Usage,
)
from threadbus.schemas import ModelCalled, TextPart

HELLO = [ChatMessage.user("Hello there")]
WHOLE = http_response(b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}')


async def test_a_completion_has_text_usage_and_who_answered() -> None:
    """And says of a playbook that it is one."""
    async with (
        playing('[[play]]\ntext = "Hi, {{ user }}."') as server,
        Model(settings_for(server.base_url)) as model,
    ):
        completion = await model.complete(HELLO)

    assert completion.text == "Hi, Hello there."
    assert completion.finish_reason == "stop"
    assert completion.usage == Usage(3, 4, 0, reported=True)
    assert (completion.model, completion.system) == ("playbook", "playbook")
    assert completion.message == ChatMessage.assistant("Hi, Hello there.")
    assert completion.attempts == 1


async def test_a_stream_gives_the_text_piece_by_piece() -> None:
    """The pieces are the whole, and the usage is reported too."""
    deltas: list[str] = []
    async with (
        playing('[[play]]\nchunk_chars = 4\ntext = "One two threé 😀 four."') as server,
        Model(settings_for(server.base_url)) as model,
    ):
        completion = await model.complete(HELLO, on_delta=deltas.append)

    assert len(deltas) == 6
    assert "".join(deltas) == completion.text == "One two threé 😀 four."
    assert completion.usage == Usage(3, 6, 0, reported=True)


async def test_a_hook_for_deltas_may_be_a_coroutine() -> None:
    """It is awaited before the next piece is read."""
    deltas: list[str] = []

    async def take(delta: str) -> None:
        await asyncio.sleep(0)
        deltas.append(delta)

    async with (
        playing('[[play]]\nchunk_chars = 1\ntext = "abc"') as server,
        Model(settings_for(server.base_url)) as model,
    ):
        await model.complete(HELLO, on_delta=take)

    assert deltas == ["a", "b", "c"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_is_recorded(streamed: bool) -> None:
    """When it started, how long it took, what it cost, who answered what."""
    records: list[ModelCalled] = []
    before = time_ns()
    async with (
        playing('[[play]]\ntext = "Yes"\nusage = { input = 9, output = 2, cached = 4 }') as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        await model.complete(HELLO, on_delta=ignore if streamed else None)

    (record,) = records
    assert before <= record.started_at <= time_ns()
    assert record.duration_ns > 0
    assert (record.first_token_ns is not None) == streamed
    assert record.first_token_ns is None or record.first_token_ns <= record.duration_ns
    assert msgspec.structs.replace(record, started_at=0, duration_ns=0, first_token_ns=None) == (
        ModelCalled(
            model="playbook",
            started_at=0,
            duration_ns=0,
            input_tokens=9,
            output_tokens=2,
            cached_tokens=4,
            finish_reason="stop",
            streamed=streamed,
            response_id="playbook-1",
            system="playbook",
            output=(TextPart("Yes"),),
        )
    )


async def test_a_call_may_have_a_hook_of_its_own() -> None:
    """It takes the place of the model's."""
    general: list[ModelCalled] = []
    own: list[ModelCalled] = []
    async with (
        playing('[[play]]\ntext = "Yes"') as server,
        Model(settings_for(server.base_url), on_call=general.append) as model,
    ):
        await model.complete(HELLO, on_call=own.append)
        await model.complete(HELLO)

    assert (len(general), len(own)) == (1, 1)


@pytest.mark.parametrize("streamed", [False, True])
async def test_tool_calls_arrive_with_their_arguments(streamed: bool) -> None:
    """Whole or in pieces."""
    toml = """
        [[play]]
        chunk_chars = 3
        [[play.call]]
        tool = "read_csv"
        arguments = { path = "sales.csv", limit = 10 }
        [[play.call]]
        tool = "now"
    """
    deltas: list[str] = []
    records: list[ModelCalled] = []
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        completion = await model.complete(
            HELLO,
            tools=[ToolSpec("read_csv"), ToolSpec("now")],
            on_delta=deltas.append if streamed else None,
        )

    assert [(call.name, call.arguments) for call in completion.tool_calls] == [
        ("read_csv", {"path": "sales.csv", "limit": 10}),
        ("now", {}),
    ]
    assert completion.finish_reason == "tool_calls"
    assert completion.text == ""
    assert deltas == []
    assert records[0].tool_calls == 2


async def test_the_agent_is_told_to_the_server() -> None:
    """So that a playbook can tell agents apart."""
    toml = '[[play]]\nagent = "coder"\ntext = "for {{ agent }}"'
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url), agent="coder") as model,
    ):
        assert (await model.complete(HELLO)).text == "for coder"


async def test_what_goes_out_is_what_the_settings_say() -> None:
    """Model of the agent, key, header, token limit, extra fields; usage is asked for in streams."""
    async with speaking([WHOLE, event_stream(b"[DONE]")]) as (url, requests):
        settings = ModelSettings(
            base_url=url,
            model="small",
            agent_models={"CODER": "large"},
            api_key=settings_for(url).api_key,
            max_output_tokens=50,
            max_retries=0,
        )
        async with Model(settings, agent="coder") as model:
            completion = await model.complete(
                HELLO, extra={"temperature": 0.5}, budget=TokenBudget(1_000, used=970)
            )
            with pytest.raises(Exception, match="ended in the middle"):
                await model.complete(HELLO, on_delta=ignore, model="other")

    first, second = (request.partition(b"\r\n\r\n") for request in requests)
    headers = first[0].decode().lower()
    assert "x-threadbus-agent: coder" in headers
    assert f"authorization: bearer {KEY}" in headers
    assert json.loads(first[2]) == {
        "model": "large",
        "messages": [{"role": "user", "content": "Hello there"}],
        "stream": False,
        "max_tokens": 30,
        "temperature": 0.5,
    }
    body = json.loads(second[2])
    assert (body["model"], body["stream"]) == ("other", True)
    assert body["stream_options"] == {"include_usage": True}
    assert completion.system == url.removeprefix("http://").removesuffix("/v1")
    assert completion.usage == Usage(reported=False)


async def test_a_server_without_keys_gets_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that the environment has for another server."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-somebody-else")
    async with (
        speaking([WHOLE]) as (url, requests),
        Model(ModelSettings(base_url=url, model="small")) as model,
    ):
        await model.complete(HELLO)

    assert b"sk-for-somebody-else" not in requests[0]


async def test_a_budget_is_charged_and_then_refuses() -> None:
    """Input and output together; the server is not asked once it is used up."""
    toml = '[[play]]\ntimes = 2\ntext = "a"\nusage = { input = 40, output = 20 }'
    budget = TokenBudget(limit=100)
    records: list[ModelCalled] = []
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        await model.complete(HELLO, budget=budget)
        await model.complete(HELLO, budget=budget)
        with pytest.raises(ModelBudgetExceededError, match="120 of 100"):
            await model.complete(HELLO, budget=budget)

    assert budget.used == 120
    assert len(records) == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_without_usage_is_charged_an_estimate(streamed: bool) -> None:
    """Otherwise its budget would never end; the record says that it is one."""
    toml = '[[play]]\ntext = "12345678"\nusage = false'
    budget = TokenBudget(limit=100)
    records: list[ModelCalled] = []
    call = ToolCall("c1", "now", "{}")
    conversation = [*HELLO, ChatMessage.assistant("", (call,)), ChatMessage.tool("c1", "noon")]
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        completion = await model.complete(
            conversation, budget=budget, on_delta=ignore if streamed else None
        )

    assert completion.usage == Usage(reported=False)
    assert records[0].estimated
    assert (records[0].input_tokens, records[0].output_tokens) == (5, 2)
    assert budget.used == 7


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_large_answer_arrives_whole(streamed: bool) -> None:
    """Half a million characters, in order."""
    text = "".join(f"{number:06d} " for number in range(70_000))
    toml = f'[[play]]\nchunk_chars = 5_000\ntext = "{text}"'
    deltas: list[str] = []
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        completion = await model.complete(HELLO, on_delta=deltas.append if streamed else None)

    assert completion.text == text
    assert "".join(deltas) == (text if streamed else "")


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_above_the_limit_is_an_error_at_once(streamed: bool) -> None:
    """It is not tried again: the next answer would be as large."""
    toml = f'[[play]]\ntimes = 1\ntext = "{"x" * 2_000}"\n[[play]]\ntext = "short"'
    records: list[ModelCalled] = []
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url, max_output_chars=1_000), on_call=records.append) as m,
    ):
        with pytest.raises(ModelOutputTooLargeError, match="more than 1,000 characters"):
            await m.complete(HELLO, on_delta=ignore if streamed else None)

    assert records[0].attempts == 1
    assert records[0].error is not None
    assert records[0].error.kind == "ModelOutputTooLargeError"


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    """However little of it is text."""
    padding = http_response(b'{"choices":[],"padding":"' + b"x" * 3_000_000 + b'"}')
    async with (
        speaking([padding]) as (url, _),
        Model(settings_for(url, max_output_chars=1_000)) as model,
    ):
        with pytest.raises(ModelOutputTooLargeError, match="bytes"):
            await model.complete(HELLO)


async def test_fifty_calls_at_the_same_time_get_their_own_answers() -> None:
    """Half of them streamed, over one model."""
    toml = '[[play]]\nchunk_chars = 7\nchunk_delay_ms = 1\ntext = "You said: {{ user }}"'
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
    ):
        tasks = {
            number: group.create_task(
                model.complete(
                    [ChatMessage.user(f"number {number}")],
                    on_delta=ignore if number % 2 else None,
                )
            )
            for number in range(50)
        }
    assert {number: task.result().text for number, task in tasks.items()} == {
        number: f"You said: number {number}" for number in range(50)
    }


async def test_a_model_that_is_not_open_says_so() -> None:
    """Before it was entered, and after it was left."""
    model = Model(settings_for("http://127.0.0.1:9/v1", deadline=timedelta(seconds=5)))
    with pytest.raises(RuntimeError, match="async with"):
        await model.complete(HELLO)
    async with model:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await model.complete(HELLO)
