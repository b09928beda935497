"""A foreign MCP server as an agent: called by mentions, looked after, started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from mcp.server import MCPServer

from tests.support import mcp_server
from tests.support.eventually import eventually
from tests.support.mcp_plugged import COMMAND, Caller, plugged
from tests.support.model_servers import playing, settings_for
from threadbus.bus import MentionFailedError
from threadbus.gateways.mcp.plugged import calls_in
from threadbus.gateways.mcp.remote import Target
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import (
    DataPart,
    FilePart,
    Part,
    Recorded,
    TextPart,
    text_of,
)


@pytest.fixture(scope="module")
async def caller(bus_url: str) -> AsyncGenerator[Caller]:
    """One server over stdio for the tests that leave it as it is."""
    async with plugged(bus_url, "tester", Target(command=COMMAND, label="tester")) as found:
        yield found


async def test_its_tools_are_skills(caller: Caller) -> None:
    """The card says what the server says of itself and of each tool."""
    record = await caller.bus.registry.get("tester")

    assert record is not None
    card = record.card
    assert (card.display_name, card.description) == ("Tester", "Tools for tests.")
    assert {skill.id: skill.description for skill in card.skills}["echo"] == "Say it again."
    assert await caller.is_living()


async def test_a_mention_with_a_call_is_carried_out(caller: Caller) -> None:
    """Text, structure and pictures come back as parts; several calls in their order."""
    assert text_of((await caller.call("echo", text="hi"))[:1]) == "echo: hi"
    (structured,) = await caller.call("add", a=2, b=3)
    assert structured == DataPart({"sum": 5}, name="structured")
    pictures = await caller.call("picture")
    assert FilePart(b"\x89PNG", "image", "image/png") in pictures
    both = await caller.say(
        [DataPart({"tool": "echo", "arguments": {"text": word}}) for word in ("a", "b")]
    )
    assert [p.text for p in both if isinstance(p, TextPart)] == ["echo: a", "echo: b"]


async def test_text_that_would_break_the_client_reaches_the_server(caller: Caller) -> None:
    """Separators and a NUL go through as they are, or as what stands for them."""
    (first, *_) = await caller.call("echo", text="a\u2028b\u2029c\u0085d\ufffd\U0001f600")

    assert first == TextPart("echo: a\u2028b\u2029c\u0085d\ufffd\U0001f600")


async def test_a_result_above_the_limit_of_common_clients_arrives(caller: Caller) -> None:
    """Two megabytes are no reason to lose the server."""
    (first, *_) = await caller.call("big", size=2_000_000)

    assert isinstance(first, TextPart)
    assert len(first.text) == 2_000_000


async def test_progress_is_shown_while_a_tool_runs(caller: Caller) -> None:
    """Each report of the server reaches whoever watches the super-task."""
    seen: list[Any] = []
    async with caller.bus.watching_live(caller.task, lambda _, value: seen.append(value)):
        await caller.call("steps", count=3)
        await eventually(lambda: len(seen) >= 3, "three reports")

    assert [(one["note"], round(one["fraction"], 2)) for one in seen] == [
        ("step 1", 0.33),
        ("step 2", 0.67),
        ("step 3", 1.0),
    ]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"tool": "fail", "arguments": {"reason": "no paper"}}, "no paper"),
        ({"tool": "nope", "arguments": {}}, "there is no tool 'nope'; the tools are"),
        ({"tool": "add", "arguments": {"a": "x"}}, "add: "),
    ],
)
async def test_a_call_that_fails_is_an_error_of_the_mention(
    caller: Caller, call: dict[str, Any], reason: str
) -> None:
    """Whoever asked hears why, at once, and the next call works."""
    with pytest.raises(MentionFailedError) as failure:
        await caller.say(DataPart(call))
    assert reason in str(failure.value)
    assert await caller.call("echo", text="still here")


async def test_words_without_a_model_are_told_how_to_call(caller: Caller) -> None:
    """Nobody guesses which of several tools was meant."""
    with pytest.raises(MentionFailedError, match="send a data part"):
        await caller.say("please add 2 and 3")


async def test_a_call_is_on_record(caller: Caller) -> None:
    """A replay sees which tool was called with what, and what came back."""
    await caller.call("add", a=20, b=22)
    events = [e.event async for e in caller.bus.read(caller.task) if isinstance(e, Recorded)]
    called = [e for e in events if e.type == "tool.called"][-1]
    returned = [e for e in events if e.type == "tool.returned"][-1]

    assert called.data.arguments == {"a": 20, "b": 22}  # type: ignore[union-attr]
    assert returned.data.error is None  # type: ignore[union-attr]
    assert returned.cause == called.cause


@asynccontextmanager
async def served(server: MCPServer[Any], port: int) -> AsyncGenerator[int]:
    """Serve a foreign server over HTTP; yields its port."""
    async with serving(server.streamable_http_app(), Address("127.0.0.1", port)) as running:
        yield running.address.port


async def test_a_server_over_http_may_go_and_come_back(bus_url: str) -> None:
    """Its one tool takes words as they are; while it is away a mention waits for it."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(served(one_tool(), 0))
        target = Target(url=f"http://127.0.0.1:{port}/mcp", label="far")
        async with plugged(bus_url, "far", target) as caller:
            assert (await caller.say("hello"))[0] == TextPart("echo: hello")
            await stack.aclose()

            async def is_gone() -> bool:
                return not await caller.is_living()

            await eventually(is_gone, "the agent is not living", 40)
            asking = asyncio.create_task(caller.say("again"))
            async with served(one_tool(), port):
                assert (await asking)[0] == TextPart("echo: again")


def one_tool() -> MCPServer[Any]:
    """Make a server with one tool."""
    server = MCPServer("far")
    server.add_tool(mcp_server.echo)
    return server


async def test_a_large_result_arrives_over_http_too(bus_url: str) -> None:
    """The client of the SDK gives up at 1 MiB unless it is told otherwise."""
    server = MCPServer("large")
    server.add_tool(mcp_server.big)
    async with served(server, 0) as port:
        target = Target(url=f"http://127.0.0.1:{port}/mcp", label="large")
        async with plugged(bus_url, "large", target) as caller:
            (first, *_) = await caller.call("big", size=2_000_000)

    assert isinstance(first, TextPart)
    assert len(first.text) == 2_000_000


def test_calls_are_read_from_data_parts_only() -> None:
    """Whatever else a part holds is no call."""
    parts: list[Part] = [
        TextPart('{"tool": "x"}'),
        DataPart({"tool": "a"}),
        DataPart({"tool": "b", "arguments": {"n": 1}}),
        DataPart({"tool": 3}),
        DataPart({"tool": "c", "arguments": [1]}),
        DataPart([{"tool": "d"}]),
    ]
    assert calls_in(parts) == [("a", {}), ("b", {"n": 1})]


async def test_a_model_chooses_the_tool_for_words(bus_url: str) -> None:
    """It is shown the tools of the server, calls one, and says what came of it."""
    toml = """
        [[play]]
        step = 1
        [[play.call]]
        tool = "add"
        arguments = { a = 20, b = 22 }
        [[play]]
        after_tool = "add"
        text = "The sum is {{ tool.add.json.sum }}."
    """
    target = Target(command=COMMAND, label="thinks")
    async with (
        playing(toml) as server,
        plugged(bus_url, "thinks", target, settings_for(server.base_url)) as caller,
    ):
        (said, *_) = await caller.say("How much is 20 and 22?")

    assert said == TextPart("The sum is 42.")
