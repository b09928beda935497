"""A tool call takes a short way through HTTP; its host sees no difference to that of the SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope

from tests.support.cli import gated, living
from tests.support.eventually import eventually
from tests.support.mcp_hosts import Running, serving_gateway
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.gateways.mcp import straight
from threadbus.gateways.mcp.gateway import GatewayOptions, open_gateway
from threadbus.gateways.mcp.straight import Straight
from threadbus.schemas import AgentName

_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture
async def running(bus_url: str, tmp_path: Path) -> AsyncGenerator[Running]:
    """A gateway on the private server of the module."""
    async with serving_gateway(bus_url, tmp_path) as served:
        yield served


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which way each request takes: "short", or that of the SDK."""
    taken: list[str] = []
    run, again = straight._Answering.run, straight._again  # pyright: ignore[reportPrivateUsage]

    async def short(answering: Any, server: Any) -> None:
        taken.append("short")
        await run(answering, server)

    def by_the_sdk(message: Any, receive: Receive) -> Receive:
        taken.append("SDK")
        return again(message, receive)

    monkeypatch.setattr(straight._Answering, "run", short)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(straight, "_again", by_the_sdk)
    return taken


def _head(running: Running, agent: str, tool: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {running.token(agent)}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": _VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }


def _body(tool: str, arguments: object, request_id: object = 1, **meta: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": _META | meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


_BAD_META = {"io.modelcontextprotocol/clientCapabilities": "none"}


@pytest.mark.parametrize(
    ("body", "more", "way"),
    [
        (_body("list_threads", {}), {}, "short"),
        (_body("list_threads", {"limit": 1}, "é-1"), {}, "short"),
        (_body("list_threads", {}, 2**70), {}, "short"),
        (_body("list_threads", {"limit": 1e400}), {}, "short"),
        (_body("list_threads", {"limit": "many"}), {}, "short"),
        (_body("list_threads", {"limit": "\ud800"}), {}, "short"),
        (_body("list_threads", [1]), {}, "short"),
        (_body("list_threads", {}, **_BAD_META), {}, "short"),
        (_body("no_such_tool", {}), {"Mcp-Name": "no_such_tool"}, "short"),
        (_body("ask", {"question": "?", "agent": "nobody"}), {"Mcp-Name": "ask"}, "short"),
        (_body("coral_create_thread", {}), {"Mcp-Name": "coral_create_thread"}, "SDK"),
        (_body("list_threads", {}, None), {}, "SDK"),
        (_body("list_threads", {}, True), {}, "SDK"),
        (_body("list_threads", {}, 1.5), {}, "SDK"),
        (_body("list_threads", {}), {"Mcp-Name": "list_agents"}, "SDK"),
        (_body("list_threads", {}), {"Accept": "application/json"}, "SDK"),
        (_body("list_threads", {}), {"Accept": "*/*"}, "SDK"),
        (_body("list_threads", {}), {"Content-Type": "text/plain"}, "SDK"),
        ([_body("list_threads", {})], {}, "SDK"),
        ({"jsonrpc": "2.0", "method": "tools/call"}, {}, "SDK"),
        (_body("list_threads", {}) | {"params": {"name": "list_threads"}}, {}, "SDK"),
    ],
)
async def test_the_answer_is_that_of_the_sdk(
    running: Running,
    ways: list[str],
    monkeypatch: pytest.MonkeyPatch,
    body: object,
    more: dict[str, str],
    way: str,
) -> None:
    """Status, kind and content are the same on both ways, for good calls and for bad ones."""
    head = _head(running, "same", "list_threads") | more
    async with httpx2.AsyncClient(headers=head, timeout=30) as http:
        one = await http.post(running.url, content=json.dumps(body))
        assert ways == [way]
        monkeypatch.setattr(straight, "_may_be_straight", _never)
        other = await http.post(running.url, content=json.dumps(body))
    assert ways == [way]
    assert one.status_code == other.status_code
    assert one.headers.get("content-type") == other.headers.get("content-type")
    assert set(one.headers) == set(other.headers)
    assert _said(one) == _said(other)


def _never(_: Scope) -> bool:
    return False


def _said(answer: httpx2.Response) -> Any:
    is_json = "json" in answer.headers.get("content-type", "")
    return json.loads(answer.content) if is_json else answer.content


async def test_half_a_character_is_named(running: Running) -> None:
    """JSON may hold it, and nothing else can: the model is told what is wrong."""
    body = json.dumps(_body("list_threads", {"limit": "\ud800"}))
    async with httpx2.AsyncClient(headers=_head(running, "half", "list_threads")) as http:
        answer = (await http.post(running.url, content=body)).json()
    assert answer["result"]["isError"]
    assert "half of a character" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_header_that_stands_there_twice_is_refused(
    running: Running, ways: list[str], name: str
) -> None:
    """Who reads the first and who reads the last would not agree."""
    head = _head(running, "twice", "list_threads")
    twice = [*head.items(), (name, head[name])]
    async with httpx2.AsyncClient() as http:
        body = json.dumps(_body("list_threads", {}))
        answer = await http.post(running.url, content=body, headers=twice)
    assert ways == ["SDK"]
    assert answer.status_code == 400
    assert "more than once" in answer.text


async def test_a_long_call_is_kept_alive_and_answered_as_an_event(
    running: Running, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is silent for long is cut by proxies; what is told comes before the answer."""
    monkeypatch.setattr(straight, "_PING_S", 0.05)
    monkeypatch.setattr(straight, "_MOMENT_S", 0.01)
    gate = asyncio.Event()
    lines: list[str] = []
    head = _head(running, "patient", "ask")
    body = _body("ask", {"agent": "slow-gate", "question": "open"}, "q", progressToken="p-1")
    async with (
        living(running.bus_url, gated("slow-gate", gate)),
        httpx2.AsyncClient(headers=head, timeout=30) as http,
        http.stream("POST", running.url, content=json.dumps(body)) as answer,
    ):
        assert answer.headers["content-type"] == "text/event-stream"
        async for line in answer.aiter_lines():
            lines.append(line)
            if line == ": ping":
                gate.set()
    assert ways == ["short"]
    said = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    told = [one["params"] for one in said if one.get("method") == "notifications/progress"]
    assert ": ping" in lines
    assert told
    assert {one["progressToken"] for one in told} == {"p-1"}
    assert said[-1]["id"] == "q"
    assert said[-1]["result"]["structuredContent"]["text"] == "after the gate: open"


async def test_a_host_that_hangs_up_ends_its_call(running: Running, ways: list[str]) -> None:
    """Once it takes longer, somebody looks whether the host is still there."""
    head = _head(running, "hangs-up", "wait_for_mentions")
    body = json.dumps(_body("wait_for_mentions", {"timeout_s": 50}))

    async def wait() -> None:
        async with httpx2.AsyncClient(headers=head, timeout=30) as http:
            await http.post(running.url, content=body)

    caller = running.gateway.caller
    waiting = asyncio.create_task(wait())
    await eventually(lambda: caller.running == 1, "the call runs")
    waiting.cancel()
    await asyncio.wait({waiting})
    await eventually(lambda: caller.running == 0, "it ends with its host")
    assert ways == ["short"]
    desk = running.gateway.desks.found("hangs-up")
    assert desk is not None
    await eventually(lambda: desk.calls == 0, "nothing counts it any more")


async def test_a_cancellation_from_elsewhere_goes_on() -> None:
    """Only the end of its host is no error of a call: whoever ends the request sees that it did."""
    body = json.dumps(_body("wait_for_mentions", {"timeout_s": 50})).encode()
    head = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": _VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "wait_for_mentions",
    }
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "headers": [(name.encode(), value.encode()) for name, value in head.items()],
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        return await asyncio.Event().wait()

    async def nothing(*_: object) -> None:
        raise AssertionError("nothing is written, and the SDK is not asked")

    async with (
        connect_in_memory("gateway", backend=InMemoryBackend()) as bus,
        open_gateway(bus, GatewayOptions(agent=AgentName("me"))) as gateway,
    ):
        app = Straight(nothing, gateway.server)
        serving = asyncio.create_task(app(scope, receive, nothing))
        await eventually(lambda: gateway.caller.running == 1, "the call runs")
        serving.cancel()
        await asyncio.wait({serving})
        assert serving.cancelled()
        await eventually(lambda: gateway.caller.running == 0, "it ends with its request")
