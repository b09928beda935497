"""The playbook server as any client sees it: OpenAI's wire, limits, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI, UnprocessableEntityError

from tests.support.model_servers import ignore, playing, settings_for
from threadbus.agents.errors import InvalidSettingError, PlaybookFormatError
from threadbus.agents.model import ChatMessage, Model
from threadbus.agents.model.playbook import PlaybookServer, parse_playbook
from threadbus.agents.model.playbook.connection import MAX_BODY_BYTES

HELLO = '[[play]]\ntext = "Hello, {{ user }}."'
ASK = b'{"model":"m","messages":[{"role":"user","content":"Ada"}]}'
SLOW = """
    [[play]]
    agent = "slow"
    chunk_chars = 1
    chunk_delay_ms = 60_000
    text = "slow"
    [[play]]
    text = "quick"
"""


@asynccontextmanager
async def connected(
    server: PlaybookServer,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Open a bare connection, with a deadline for whatever is done over it."""
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield reader, writer
        finally:
            writer.close()


def post(body: bytes, headers: str = "") -> bytes:
    """Return a request for a completion."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n"
    return (head + headers + "\r\n").encode() + body


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one response that has a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(status.split()[1]), headers, body


async def respond(server: PlaybookServer, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send *request* over a connection of its own."""
    async with connected(server) as (reader, writer):
        writer.write(request)
        return await read_response(reader)


async def test_the_official_client_understands_an_answer() -> None:
    """Text, tool calls, usage, and the label in every place."""
    toml = """
        [[play]]
        text = "Hello, {{ user }}."
        [[play.call]]
        tool = "wave"
        arguments = { hands = 2 }
    """
    async with playing(toml) as server, AsyncOpenAI(base_url=server.base_url, api_key="x") as sdk:
        raw = await sdk.chat.completions.with_raw_response.create(
            model="any", messages=[{"role": "user", "content": "Ada"}]
        )
        completion = raw.parse()

    choice = completion.choices[0]
    assert choice.message.content == "Hello, Ada."
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    call = choice.message.tool_calls[0]
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("wave", {"hands": 2})
    assert completion.usage is not None
    assert completion.usage.total_tokens == 1 + 3 + 4
    assert completion.model == completion.system_fingerprint == "playbook"
    assert raw.headers["x-threadbus-playbook"] == "playbook"
    assert (completion.model_extra or {})["playbook"]["play"] == "play 1"


async def test_the_official_client_understands_a_stream() -> None:
    """The usage comes last, and only where it is asked for."""
    async with playing(HELLO) as server, AsyncOpenAI(base_url=server.base_url, api_key="x") as sdk:
        usages: list[list[bool]] = []
        for include_usage in (True, False):
            stream = await sdk.chat.completions.create(
                model="any",
                messages=[{"role": "user", "content": [{"type": "text", "text": "Ada"}]}],
                stream=True,
                stream_options={"include_usage": include_usage},
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == "Hello, Ada."
            usages.append([chunk.usage is not None for chunk in chunks])

    assert usages == [[False, False, False, True], [False, False, False]]


async def test_the_official_client_gets_a_miss_as_an_error() -> None:
    """A 422 that says what to mend."""
    toml = '[[play]]\nagent = "planner"\ntext = "x"'
    async with playing(toml) as server, AsyncOpenAI(base_url=server.base_url, api_key="x") as sdk:
        with pytest.raises(UnprocessableEntityError, match=r"no play in test\.toml"):
            await sdk.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "Ada"}], user="coder"
            )


async def test_the_models_and_the_health_can_be_asked() -> None:
    """Both say that this is a playbook."""
    async with playing(HELLO) as server, AsyncOpenAI(base_url=server.base_url, api_key="x") as sdk:
        models = [model.id async for model in sdk.models.list()]
        status, headers, body = await respond(server, b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")

    assert models == ["playbook"]
    assert status == 200
    assert headers["server"] == "threadbus-playbook"
    health = json.loads(body)
    assert (health["status"], health["plays"], health["playbook"]) == ("ok", 1, "test.toml")
    assert "no model is asked" in health["note"]


@pytest.mark.parametrize(
    ("request_bytes", "status", "said"),
    [
        (post(b"{"), 400, "not a chat completion request"),
        (post(b'{"model":"m","messages":[]}'), 400, "length >= 1"),
        (post(b"\xff\xfe"), 400, "not a chat completion request"),
        (b"GET /v1/chat/completions HTTP/1.1\r\nHost: h\r\n\r\n", 405, "does not take GET"),
        (b"GET /nowhere?x=1 HTTP/1.1\r\nHost: h\r\n\r\n", 404, "there is no /nowhere;"),
        (b"nonsense\r\n\r\n", 400, ""),
        (b"GET /health HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 70_000, 431, ""),
        (b"GET /health HTTP/1.1\r\n\r\n", 400, "Host"),
        (
            f"POST /v1/models HTTP/1.1\r\nHost: h\r\nContent-Length: {10**12}\r\n\r\n".encode(),
            413,
            "more than 33,554,432 bytes",
        ),
    ],
    ids=range(9),
)
async def test_a_bad_request_gets_an_error_in_the_usual_shape(
    request_bytes: bytes, status: int, said: str
) -> None:
    """And harms nobody else."""
    async with playing(HELLO) as server:
        got, headers, body = await respond(server, request_bytes)
        assert (await respond(server, post(ASK)))[0] == 200

    assert got == status
    assert headers["content-type"] == "application/json"
    error = json.loads(body)["error"]
    assert said in error["message"]
    assert sorted(error) == ["code", "message", "param", "type"]


async def test_a_body_that_grows_too_large_is_refused() -> None:
    """Also where its length was not told before; the client hears it while it still sends."""
    async with playing(HELLO) as server, connected(server) as (reader, writer):
        writer.write(b"POST /v1/models HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        for _ in range(MAX_BODY_BYTES // 0x100000 + 20):
            writer.write(piece)
            await writer.drain()
        assert (await read_response(reader))[0] == 413


async def test_a_connection_serves_one_request_after_another() -> None:
    """Also when the next comes before the answer, and where the client asks to go on first."""
    async with playing(HELLO) as server, connected(server) as (reader, writer):
        writer.write(post(ASK) + post(b"{") + post(ASK))
        statuses = [(await read_response(reader))[0] for _ in range(3)]
        writer.write(post(ASK, "Expect: 100-continue\r\n")[: -len(ASK)])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        writer.write(ASK)
        statuses.append((await read_response(reader))[0])

    assert statuses == [200, 400, 200, 200]


async def test_a_request_during_a_pause_waits_for_its_turn() -> None:
    """It is answered after the slow one."""
    toml = '[[play]]\ntimes = 1\ndelay_ms = 100\ntext = "first"\n[[play]]\ntext = "second"'
    async with playing(toml) as server, connected(server) as (reader, writer):
        writer.write(post(ASK))
        await writer.drain()
        writer.write(post(ASK))
        texts = [
            json.loads((await read_response(reader))[2])["choices"][0]["message"]["content"]
            for _ in range(2)
        ]

    assert texts == ["first", "second"]


async def test_a_client_that_vanishes_in_the_middle_harms_nobody() -> None:
    """Others are answered, and its answer ends instead of waiting for nobody."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Ada"}]}'
    health = b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    async with asyncio.timeout(30), playing(SLOW) as server:
        for _ in range(20):
            async with connected(server) as (reader, writer):
                writer.write(post(body, "X-Threadbus-Agent: slow\r\n"))
                await reader.readuntil(b'"content":"s"')
        async with Model(settings_for(server.base_url)) as model:
            completion = await model.complete([ChatMessage.user("hi")], on_delta=ignore)
        while json.loads((await respond(server, health))[2])["connections"] > 1:
            pass

    assert completion.text == "quick"


async def test_too_many_connections_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are open go on."""
    monkeypatch.setattr("threadbus.agents.model.playbook.server.MAX_CONNECTIONS", 2)
    async with playing(HELLO) as server, connected(server) as first, connected(server) as second:
        for reader, writer in (first, second):
            writer.write(post(ASK))
            assert (await read_response(reader))[0] == 200
        status, _, body = await respond(server, post(ASK))
        first[1].write(post(ASK))
        assert (await read_response(first[0]))[0] == 200

    assert status == 503
    assert b"more than 2 connections are open" in body


async def test_leaving_finishes_what_is_being_answered() -> None:
    """And closes connections that only wait at once."""
    toml = '[[play]]\nchunk_chars = 1\nchunk_delay_ms = 30\ntext = "slowly"'
    first_delta = asyncio.Event()
    order: list[str] = []

    async def ask(model: Model) -> None:
        completion = await model.complete(
            [ChatMessage.user("hi")], on_delta=lambda _: first_delta.set()
        )
        order.append(f"{completion.text} in attempt {completion.attempts}")

    async def wait_for_the_end(reader: asyncio.StreamReader) -> None:
        assert await reader.read() == b""
        order.append("idle connection closed")

    server = PlaybookServer(parse_playbook(toml))
    await server.__aenter__()
    async with (
        Model(settings_for(server.base_url)) as model,
        connected(server) as (reader, _),
        asyncio.TaskGroup() as group,
    ):
        group.create_task(wait_for_the_end(reader))
        group.create_task(ask(model))
        await first_delta.wait()
        await server.__aexit__(None, None, None)

    assert order == ["idle connection closed", "slowly in attempt 1"]


async def test_leaving_by_an_error_waits_for_nothing() -> None:
    """Whatever is being answered breaks off."""
    toml = '[[play]]\nchunk_chars = 1\nchunk_delay_ms = 100\ntext = "slowly, slowly"'
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Ada"}]}'
    server = PlaybookServer(parse_playbook(toml))
    await server.__aenter__()
    async with connected(server) as (reader, writer):
        writer.write(post(body))
        await reader.readuntil(b'"content":"s"')
        await server.__aexit__(ValueError, ValueError("enough"), None)
        rest = await reader.read()

    assert b"[DONE]" not in rest


async def test_an_address_that_is_taken_is_told() -> None:
    """With the way out."""
    async with playing(HELLO) as server:
        port = int(server.base_url.removesuffix("/v1").rpartition(":")[2])
        with pytest.raises(InvalidSettingError, match="port 0 picks a free one") as caught:
            async with PlaybookServer(parse_playbook(HELLO), port=port):
                pass

    assert str(port) in str(caught.value)


async def test_a_file_that_breaks_the_format_is_told_on_entering() -> None:
    """The constructor does not read it."""
    server = PlaybookServer("does-not-exist.toml")
    with pytest.raises(PlaybookFormatError, match="does-not-exist"):
        async with server:
            pass
