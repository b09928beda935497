"""What hosts must not be able to do to the gateway: each gets a clear error, and it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from tests.support.eventually import eventually
from tests.support.mcp_hosts import ERAS, Era, Running, serving_gateway
from threadbus.bus import BusSettings
from threadbus.bus.server import EmbeddedServer
from threadbus.gateways.mcp import calling, tools_threads
from threadbus.gateways.mcp.desk import MAX_CALLS
from threadbus.schemas import AgentName

MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
async def running(bus_url: str, tmp_path: Path) -> AsyncGenerator[Running]:
    """A gateway on the private server of the module."""
    async with serving_gateway(bus_url, tmp_path) as served:
        yield served


class Raw:
    """A host that says what it likes."""

    def __init__(self, running: Running, http: httpx2.AsyncClient, token: str = "") -> None:
        self._url = running.url
        self._http = http
        self._headers = {
            "Authorization": f"Bearer {token or running.token('raw')}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    async def post(self, body: bytes | str, **headers: str) -> httpx2.Response:
        """Send a body as it is."""
        return await self._http.post(
            self._url, content=body, headers={**self._headers, **headers}, timeout=30
        )

    async def begin(self) -> dict[str, str]:
        """Begin a session of the older era; return the headers that name it."""
        info = {"name": "raw", "version": "1"}
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
        started = await self.post(json.dumps(body))
        return {
            "Mcp-Session-Id": started.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
        }

    async def modern(self, method: str, params: Any, **headers: str) -> httpx2.Response:
        """Send a request of the newer era."""
        known = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        name = known.get("name", "")
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        more = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        more |= {"Mcp-Name": str(name)} if name else {}
        return await self.post(json.dumps(body), **{**more, **headers})


@pytest.fixture
async def raw(running: Running) -> AsyncGenerator[Raw]:
    """A host that says what it likes."""
    async with httpx2.AsyncClient() as http:
        yield Raw(running, http)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
        b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
        b"[" * 100_000,
        b'{"a":' * 5_000,
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_what_is_no_request_is_refused(raw: Raw, body: bytes) -> None:
    """The answer is a client error, in either era, and tells nothing of the inside."""
    for headers in ({}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}):
        response = await raw.post(body, **headers)
        assert 400 <= response.status_code < 500, response.text
        assert "Traceback" not in response.text
        assert "threadbus/" not in response.text


@pytest.mark.parametrize(
    ("method", "params", "status"),
    [
        ("nonsense/list", {"_meta": MODERN}, 404),
        ("tools/call", {"_meta": MODERN}, 400),
        ("tools/call", {"_meta": MODERN, "name": "list_agents", "arguments": "{}"}, 400),
        ("tools/call", {"_meta": MODERN, "name": "list_agents", "arguments": [1]}, 400),
        ("tools/call", {"_meta": MODERN, "name": 7}, 400),
        ("tools/list", {}, 400),
        ("tools/list", [], 400),
        ("prompts/get", {"_meta": MODERN, "name": "no such"}, 400),
    ],
)
async def test_a_request_that_is_wrong_says_where(
    raw: Raw, method: str, params: Any, status: int
) -> None:
    """It is an error of the protocol, and the next request is served."""
    response = await raw.modern(method, params)
    assert response.status_code == status, response.text
    listed = await raw.modern("tools/list", {"_meta": MODERN})
    assert listed.status_code == 200


async def test_a_body_that_is_too_large_is_not_read(raw: Raw) -> None:
    """Ten megabytes of arguments are refused before they are parsed."""
    arguments = {"thread_id": "x", "content": "y" * 10_000_000}
    params = {"_meta": MODERN, "name": "send_message", "arguments": arguments}
    response = await raw.modern("tools/call", params)

    assert response.status_code == 413
    assert "4,194,304" in response.text


async def test_unknown_sessions_hosts_and_origins_are_sent_away(raw: Raw) -> None:
    """A session that is gone is 404, so that the host begins anew."""
    ping = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    gone = await raw.post(
        ping, **{"Mcp-Session-Id": "f" * 32, "MCP-Protocol-Version": "2025-11-25"}
    )
    assert gone.status_code == 404
    assert gone.json()["error"]["message"] == "Session not found"
    assert (await raw.post(ping, Host="evil.example")).status_code == 421
    assert (await raw.post(ping, Origin="https://evil.example")).status_code == 403


async def test_a_session_serves_only_whoever_began_it(running: Running) -> None:
    """Another token with the id of the session finds no session."""
    async with httpx2.AsyncClient() as http:
        ada = Raw(running, http, running.token("ada"))
        eve = Raw(running, http, running.token("eve"))
        session = await ada.begin()
        ping = '{"jsonrpc": "2.0", "id": 2, "method": "ping"}'
        assert (await ada.post(ping, **session)).status_code == 200
        assert (await eve.post(ping, **session)).status_code == 404


@both_eras
async def test_arguments_that_do_not_fit_are_named(running: Running, era: Era) -> None:
    """A model reads which argument is wrong, what was expected, and what the tool takes."""
    async with running.host(f"clumsy-{era}", era) as ada:
        where = (await ada.call("create_thread", name="T"))["thread_id"]
        said = {"thread_id": where, "content": "x"}
        cast = {"thread_id": where, "proposal_id": "f" * 32}
        me = f"clumsy-{era}"
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("send_message", said | {"mentions": "bob"}, "mentions: Expected `array`, got `str`"),
            ("send_message", {"thread_id": where}, "missing required field `content`"),
            ("send_message", said | {"mention": []}, "unknown field `mention`"),
            ("send_message", {"thread_id": where, "content": ""}, "length >= 1"),
            ("send_message", {"thread_id": "x", "content": "y"}, "Thread_id: super-task id 'x'"),
            ("send_message", {"thread_id": f"{where}-no", "content": "y"}, "list_threads"),
            ("send_message", said | {"mentions": ["nobody"]}, "No agent 'nobody'"),
            ("send_message", said | {"mentions": [me]}, "mention yourself"),
            ("wait_for_mentions", {"timeout_s": 51}, "<= 50"),
            ("wait_for_mentions", {"timeout_s": "5"}, "Expected `float`, got `str`"),
            ("wait_for_mentions", {"cursor": "zzz"}, "copy it exactly"),
            ("vote", cast | {"verdict": "maybe"}, "Invalid enum value 'maybe'"),
            ("vote", cast | {"verdict": "approve"}, "is not in thread"),
            ("ask", {"question": "x"}, "one is missing"),
            ("ask_nobody", {"question": "x"}, "No tool 'ask_nobody'"),
            ("close_threat", {}, "did you mean close_thread"),
        ]  # fmt: skip
        for tool, arguments, words in cases:
            assert words in await ada.error(tool, **arguments), (tool, arguments)


@both_eras
async def test_text_that_cannot_travel_is_repaired_and_the_rest_is_kept(
    running: Running, era: Era
) -> None:
    """NUL is replaced; separators, joiners and emoji come out as they went in."""
    odd = "a\u2028b\u2029c\u0085d\u200de\ufefff\U0001f600\x7f\x1b[31m"
    async with running.host(f"odd-{era}", era) as ada:
        where = (await ada.call("create_thread", name=f"T\x00{odd}"))["thread_id"]
        await ada.call("send_message", thread_id=where, content=f"\x00{odd}", data={"k\x00": odd})
        said = (await ada.call("get_thread", thread_id=where))["messages"][-1]

        assert said["text"] == f"\ufffd{odd}"
        assert said["data"] == [{"k\ufffd": odd}]


async def test_lone_surrogates_are_repaired(raw: Raw) -> None:
    """JSON can say half of a character; an event cannot."""
    body = (
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_thread", '
        '"arguments": {"name": "half \\ud800 of it"}, "_meta": ' + json.dumps(MODERN) + "}}"
    )
    response = await raw.post(
        body,
        **{
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "create_thread",
        },
    )

    assert response.json()["result"]["structuredContent"]["thread"]["title"] == "half \ufffd of it"


async def test_a_bug_of_the_gateway_is_told_without_its_words(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host gets a reference to the log, and the next call works."""

    async def breaks(*_: object) -> None:
        raise RuntimeError("secret=hunter2")

    async with running.host("lucky") as ada:
        await ada.call("list_agents")
        with monkeypatch.context() as patched:
            patched.setattr(tools_threads, "notes_on", breaks)
            told = await ada.error("create_thread", name="T")
        assert "hunter2" not in told
        assert "its log has it as" in told
        assert await ada.call("create_thread", name="T")


async def test_one_agent_cannot_take_all_calls(running: Running) -> None:
    """What is over the limit is refused with the limit; the others go on."""
    async with running.host("greedy") as ada:
        await ada.call("list_agents")
        desk = running.gateway.desks.found("greedy")
        assert desk is not None
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(desk, "_calls", MAX_CALLS)
            assert f"has {MAX_CALLS} calls running" in await ada.error("list_threads")


async def test_a_thread_of_others_is_not_shown(running: Running) -> None:
    """Neither its messages nor who is in it; only that the caller is not."""
    async with running.host("inside") as ada, running.host("outside") as eve:
        where = (await ada.call("create_thread", name="Secret plan"))["thread_id"]
        await ada.call("send_message", thread_id=where, content="the key is under the mat")
        for tool in ("get_thread", "wait_for_mentions"):
            told = await eve.error(tool, thread_id=where)
            assert "There is no thread" in told
            assert "mat" not in told
        assert "do not take part" in await eve.error("send_message", thread_id=where, content="x")
        assert (await eve.call("list_threads"))["threads"] == []


@both_eras
async def test_a_connection_that_breaks_in_a_wait_leaves_no_waiter(
    running: Running, era: Era
) -> None:
    """Without a word of goodbye, many times over: no wait and no call is left."""
    secret = running.token(f"cable-{era}")
    async with httpx2.AsyncClient() as first:
        session = await Raw(running, first, secret).begin() if era == "legacy" else {}
    params: dict[str, Any] = {"name": "wait_for_mentions", "arguments": {"timeout_s": 50}}
    desk = await running.gateway.desks.at(AgentName(f"cable-{era}"))
    for _ in range(20):
        async with httpx2.AsyncClient() as http:
            raw = Raw(running, http, secret)
            body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
            if era == "legacy":
                waiting = asyncio.create_task(raw.post(json.dumps(body), **session))
            else:
                waiting = asyncio.create_task(raw.modern("tools/call", params | {"_meta": MODERN}))
            await eventually(lambda: desk.mailbox.waiters > 0, "the wait has begun")
            waiting.cancel()
            await asyncio.wait({waiting})

    await eventually(lambda: desk.mailbox.waiters == 0, "nobody waits any more")
    await eventually(lambda: running.gateway.caller.running == 0, "no call runs any more")


async def test_a_call_that_is_cancelled_leaves_the_rest_alone(running: Running) -> None:
    """The wait ends at the gateway, and the same connection goes on."""
    async with running.host("hasty", "legacy") as ada:
        await ada.call("list_agents")
        desk = running.gateway.desks.found("hasty")
        assert desk is not None
        with pytest.raises(MCPError):
            await ada.result("wait_for_mentions", {"timeout_s": 50}, read_timeout_seconds=0.5)
        await eventually(lambda: desk.mailbox.waiters == 0, "nobody waits any more")
        assert (await ada.call("list_agents"))["you"] == "hasty"


async def test_a_bus_that_is_killed_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is away a call says so in time; when it is back it works, and nothing is lost."""
    monkeypatch.setattr(calling, "LIMIT_S", 3.0)
    settings = BusSettings(append_timeout=timedelta(seconds=2))
    async with EmbeddedServer() as server:
        chosen = replace(settings, url=server.url)
        async with (
            serving_gateway(server.url, tmp_path, settings=chosen) as running,
            running.host("steady") as ada,
        ):
            where = (await ada.call("create_thread", name="T"))["thread_id"]
            said = {"thread_id": where, "content": "after", "idempotency_key": "1"}
            await server.kill()
            told = await ada.error("send_message", **said)
            assert "same idempotency_key" in told or "does not answer" in told
            await server.start()

            async def works() -> bool:
                return not (await ada.result("send_message", said)).is_error

            await eventually(works, "a call works again", 30)
            read = await ada.call("get_thread", thread_id=where)
            assert [message["text"] for message in read["messages"][1:]] == ["after"]
