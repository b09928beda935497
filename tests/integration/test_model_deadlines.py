"""The time that a model call may take, its hooks, and how it is cancelled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.support.model_servers import ignore, playing, settings_for
from threadbus.agents.errors import ModelTimeoutError
from threadbus.agents.model import ChatMessage, Model
from threadbus.schemas import ModelCalled

HELLO = [ChatMessage.user("Hello")]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_attempt_that_takes_too_long_is_tried_again(streamed: bool) -> None:
    """Whether nothing comes or the stream stalls."""
    before = "delay_ms = 60_000" if not streamed else "chunk_chars = 1\nchunk_delay_ms = 60_000"
    toml = f'[[play]]\ntimes = 1\n{before}\ntext = "slow"\n[[play]]\ntext = "ok"'
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url, timeout=timedelta(seconds=1))) as model,
    ):
        completion = await model.complete(HELLO, on_delta=ignore if streamed else None)

    assert (completion.text, completion.attempts) == ("ok", 2)


async def test_when_every_attempt_takes_too_long_the_error_says_so() -> None:
    """With the time of one attempt."""
    records: list[ModelCalled] = []
    settings = {"timeout": timedelta(seconds=0.2), "max_retries": 1}
    async with (
        playing('[[play]]\ndelay_ms = 60_000\ntext = "slow"') as server,
        Model(settings_for(server.base_url, **settings), on_call=records.append) as model,  # type: ignore[arg-type]
    ):
        with pytest.raises(ModelTimeoutError, match=r"in 0\.2 s .*one attempt; attempt 2"):
            await model.complete(HELLO)

    assert records[0].error is not None
    assert records[0].error.kind == "ModelTimeoutError"


async def test_the_deadline_ends_a_call_in_any_attempt() -> None:
    """With the time of the whole call."""
    async with (
        playing('[[play]]\ndelay_ms = 60_000\ntext = "slow"') as server,
        Model(settings_for(server.base_url, deadline=timedelta(seconds=0.2))) as model,
    ):
        with pytest.raises(ModelTimeoutError, match=r"in 0\.2 s .*deadline of the call"):
            await model.complete(HELLO)


@pytest.mark.parametrize("error", [ValueError("mine"), TimeoutError("mine"), OSError("mine")])
async def test_what_a_hook_raises_is_the_callers(error: Exception) -> None:
    """It is neither tried again nor taken for the server's failure."""

    def fail(_: str) -> None:
        raise error

    records: list[ModelCalled] = []
    async with (
        playing('[[play]]\nchunk_chars = 1\ntext = "abc"') as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        with pytest.raises(type(error), match="mine"):
            await model.complete(HELLO, on_delta=fail)

    assert records[0].attempts == 1


async def test_a_timeout_of_the_callers_own_stays_one() -> None:
    """It is not turned into a ModelTimeoutError."""
    async with (
        playing('[[play]]\ndelay_ms = 60_000\ntext = "slow"') as server,
        Model(settings_for(server.base_url)) as model,
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.complete(HELLO)


async def test_a_cancelled_call_ends_at_once_and_is_recorded() -> None:
    """The model can be used afterwards."""
    records: list[ModelCalled] = []
    started = asyncio.Event()
    toml = """
        [[play]]
        times = 1
        chunk_chars = 1
        chunk_delay_ms = 60_000
        text = "slow"
        [[play]]
        text = "ok"
    """
    async with (
        asyncio.timeout(20),
        playing(toml) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        call = asyncio.create_task(model.complete(HELLO, on_delta=lambda _: started.set()))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await model.complete(HELLO)).text == "ok"

    assert records[0].error is not None
    assert records[0].error.kind == "CancelledError"
    assert records[1].error is None
