"""The model port when the server fails: what is tried again, and what a caller is told."""

from __future__ import annotations

import gzip
import json
import socket
from datetime import timedelta

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
from threadbus.agents.errors import (
    ModelOutputTooLargeError,
    ModelRefusedError,
    ModelUnavailableError,
)
from threadbus.agents.model import ChatMessage, Model
from threadbus.schemas import ModelCalled

HELLO = [ChatMessage.user("Hello")]
OK = b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
OK_CHUNK = b'{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}'


def failing(fail: str, times: int = 1, before: str = "") -> str:
    """Return a playbook that fails *times* times and then says ``ok``."""
    return f"""
        [[play]]
        times = {times}
        {before}
        [play.fail]
        {fail}
        [[play]]
        text = "ok"
    """


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_failure_that_may_pass_is_tried_again(status: int) -> None:
    """Until it has passed; the record counts the attempts."""
    records: list[ModelCalled] = []
    async with (
        playing(failing(f"status = {status}", times=2)) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        completion = await model.complete(HELLO)

    assert (completion.text, completion.attempts) == ("ok", 3)
    assert [record.attempts for record in records] == [3]
    assert records[0].error is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_told_and_not_tried_again(status: int) -> None:
    """With the server's own words, which must not give the key away."""
    records: list[ModelCalled] = []
    toml = failing(f'status = {status}\nmessage = "no such thing, {KEY}"')
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url), on_call=records.append) as model,
    ):
        with pytest.raises(ModelRefusedError, match=r"no such thing, \[key\]") as caught:
            await model.complete(HELLO)

    error = caught.value
    assert (error.status, error.model) == (status, "playbook")
    assert error.server in server.base_url
    assert KEY not in f"{error!r}{error}"
    assert records[0].attempts == 1
    assert records[0].system == "playbook"
    assert records[0].error is not None
    assert records[0].error.kind == "ModelRefusedError"
    assert records[0].error.message == str(error)


async def test_when_no_attempt_is_left_the_last_error_is_told() -> None:
    """With the server and the number of attempts."""
    async with (
        playing(failing('status = 503\nmessage = "overloaded"', times=9)) as server,
        Model(settings_for(server.base_url, max_retries=2)) as model,
    ):
        with pytest.raises(ModelUnavailableError, match="HTTP 503: overloaded") as caught:
            await model.complete(HELLO)

    assert caught.value.attempts == 3
    assert caught.value.server in server.base_url


async def test_a_server_that_is_not_there_is_told_by_host_and_port() -> None:
    """After every attempt."""
    with socket.socket() as taken:
        # Bound but not listening: nobody answers here, and nobody else can.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with Model(settings_for(f"http://127.0.0.1:{port}/v1", max_retries=1)) as model:
            with pytest.raises(ModelUnavailableError, match="no connection") as caught:
                await model.complete(HELLO)

    assert caught.value.server == f"127.0.0.1:{port}"
    assert caught.value.attempts == 2


async def test_the_wait_that_a_server_asks_for_is_kept() -> None:
    """It is waited, and then the request is sent again."""
    async with (
        playing(failing("status = 429\nretry_after = 0.05")) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        assert (await model.complete(HELLO)).attempts == 2


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Retry-After: 3600\r\n", "asks to wait 3600 s; 60 is most"),
        ("Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n", "asks to wait"),
        ("Retry-After-Ms: 90000\r\n", "asks to wait 90 s"),
        ("Retry-After: 50\r\n", "busy"),
    ],
    ids=["seconds", "date", "milliseconds", "past the deadline"],
)
async def test_a_wait_that_is_too_long_ends_the_call(header: str, said: str) -> None:
    """At once, instead of asking again too early."""
    busy = http_response(b'{"error":{"message":"busy"}}', status="429 Slow down", headers=header)
    async with (
        speaking([busy, http_response(OK)]) as (url, requests),
        Model(settings_for(url, deadline=timedelta(seconds=40))) as model,
    ):
        with pytest.raises(ModelUnavailableError, match=said):
            await model.complete(HELLO)

    assert len(requests) == 1


@pytest.mark.parametrize("header", ["Retry-After: soon\r\n", "Retry-After: nan\r\n", ""])
async def test_a_wait_that_cannot_be_read_is_left_out(header: str) -> None:
    """The usual back-off is waited instead."""
    busy = http_response(b"busy", "text/plain", "503 Busy", header)
    async with (
        speaking([busy, http_response(OK)]) as (url, _),
        Model(settings_for(url)) as model,
    ):
        assert (await model.complete(HELLO)).text == "ok"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            http_response(
                b'{"error":{"message":"no money","code":"insufficient_quota"}}', status="429 No"
            ),
            "no money",
        ),
        (http_response(b"no", status="503 No", headers="x-should-retry: false\r\n"), "no"),
        (http_response(b'{"detail":"bad field"}', status="400 No"), "bad field"),
        (http_response(b'{"message":"bad model"}', status="400 No"), "bad model"),
        (http_response(b'{"error":"bad thing"}', status="400 No"), "bad thing"),
        (http_response(b"", status="400 No"), "without a message"),
        (http_response(b"\xff[", status="400 No"), "\ufffd"),
        (http_response(b"x" * 5_000_000, status="400 No"), "xxxx"),
    ],
    ids=["quota", "should not", "detail", "message", "text", "nothing", "bytes", "large"],
)
async def test_refusals_in_other_dialects_are_understood(response: bytes, said: str) -> None:
    """The reason is found where the server puts it, and is bounded."""
    async with (
        speaking([response, http_response(OK)]) as (url, _),
        Model(settings_for(url)) as model,
    ):
        with pytest.raises(ModelRefusedError) as caught:
            await model.complete(HELLO)

    assert said in caught.value.reason
    assert len(caught.value.reason) <= 1_000


async def test_the_body_of_an_error_is_not_read_to_its_end() -> None:
    """What is needed of it has come long before the connection breaks."""
    endless = (
        b"HTTP/1.1 400 No\r\nContent-Type: text/plain\r\nContent-Length: 50000000\r\n\r\n"
        + b"no use " * 100_000
    )
    async with (
        speaking([endless]) as (url, _),
        Model(settings_for(url, max_retries=0)) as model,
    ):
        with pytest.raises(ModelRefusedError, match="no use no use"):
            await model.complete(HELLO)


async def test_a_server_may_ask_to_be_asked_again() -> None:
    """Also with a status that usually is final."""
    again = http_response(b"later", status="400 Later", headers="x-should-retry: true\r\n")
    async with (
        speaking([again, http_response(OK)]) as (url, _),
        Model(settings_for(url)) as model,
    ):
        assert (await model.complete(HELLO)).attempts == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_connection_cut_in_the_middle_is_tried_again(streamed: bool) -> None:
    """What had come is void, and whoever shows it is told."""
    heard: list[str] = []
    toml = failing("cut_after = 6", before='text = "not to be kept"\nchunk_chars = 3')
    async with (
        playing(toml) as server,
        Model(settings_for(server.base_url)) as model,
    ):
        completion = await model.complete(
            HELLO,
            on_delta=heard.append if streamed else None,
            on_restart=lambda: heard.append("RESTART"),
        )

    assert (completion.text, completion.attempts) == ("ok", 2)
    assert heard == (["not", " to", "RESTART", "ok"] if streamed else [])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("times", [1, 9])
async def test_garbage_is_no_answer(streamed: bool, times: int) -> None:
    """It may pass; if it does not, the error shows what came."""
    async with (
        playing(failing("garbage = true", times)) as server,
        Model(settings_for(server.base_url, max_retries=1)) as model,
    ):
        call = model.complete(HELLO, on_delta=ignore if streamed else None)
        if times == 1:
            assert (await call).text == "ok"
        else:
            with pytest.raises(ModelUnavailableError, match="<html>this is not a chat"):
                await call


async def test_a_stream_that_just_ends_is_not_taken_for_whole() -> None:
    """Some servers end one request when another comes, without a word."""
    half = event_stream(b'{"choices":[{"delta":{"content":"half"}}]}', b"[DONE]")
    async with (
        speaking([half, event_stream(OK_CHUNK, b"[DONE]")]) as (url, _),
        Model(settings_for(url)) as model,
    ):
        assert (await model.complete(HELLO, on_delta=ignore)).text == "ok"


async def test_an_error_inside_a_stream_is_tried_again() -> None:
    """Its message is kept for the last attempt."""
    broken = event_stream(b'{"error":{"message":"the model fell over"}}')
    async with (
        speaking([broken, broken]) as (url, _),
        Model(settings_for(url, max_retries=1)) as model,
    ):
        with pytest.raises(ModelUnavailableError, match="the model fell over"):
            await model.complete(HELLO, on_delta=ignore)


async def test_a_server_that_does_not_know_stream_options_is_asked_without() -> None:
    """Once it has refused them, they are left out for good."""
    refusal = http_response(
        b'{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}',
        status="422 No",
    )
    good = event_stream(OK_CHUNK)
    async with (
        speaking([refusal, good, good]) as (url, requests),
        Model(settings_for(url)) as model,
    ):
        first = await model.complete(HELLO, on_delta=ignore)
        second = await model.complete(HELLO, on_delta=ignore)

    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]
    assert ["stream_options" in body for body in bodies] == [True, False, False]
    assert (first.text, first.attempts, second.text) == ("ok", 1, "ok")


async def test_a_server_that_cannot_stream_may_answer_whole() -> None:
    """The text comes as one delta."""
    deltas: list[str] = []
    async with (
        speaking([http_response(OK)]) as (url, _),
        Model(settings_for(url)) as model,
    ):
        await model.complete(HELLO, on_delta=deltas.append)

    assert deltas == ["ok"]


async def test_a_body_that_unpacks_to_too_much_is_an_error() -> None:
    """What counts is its size when it is read, not on the wire."""
    packed = http_response(gzip.compress(b" " * 30_000_000), headers="Content-Encoding: gzip\r\n")
    async with (
        speaking([packed]) as (url, _),
        Model(settings_for(url, max_output_chars=1_000)) as model,
    ):
        with pytest.raises(ModelOutputTooLargeError, match="bytes"):
            await model.complete(HELLO)
