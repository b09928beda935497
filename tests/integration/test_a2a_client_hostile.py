"""What a remote A2A agent may do to us: cards that lie, answers without end, and nonsense."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from starlette.types import Receive, Scope, Send

from tests.support.a2a_remote import REMOTE, Remote, joined
from tests.support.running_agents import find
from threadbus.gateways.a2a import talking, transport
from threadbus.gateways.a2a.following import RemoteTask
from threadbus.gateways.a2a.reach import Reach
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.a2a.transport import MendingTransport
from threadbus.gateways.errors import AddressRefusedError, RemoteError
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import HandlingFailed, TaskClosed, TaskStatus

PATIENCE_S = 30.0
LIMIT = 100_000
Json = dict[str, Any]


@asynccontextmanager
async def answering(
    body: bytes, *headers: tuple[bytes, bytes], times: int = 1
) -> AsyncGenerator[str]:
    """Answer each request with *body*, so many times over; give the address."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        sent = list(headers) or [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": sent})
        for _ in range(times):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(answer, Address("127.0.0.1", 0)) as served:
        yield served.url


def card(*interfaces: tuple[str, str]) -> bytes:
    """Return a card that offers so many addresses, each with its binding."""
    offered = [
        {"protocolBinding": binding, "url": url, "protocolVersion": "1.0"}
        for binding, url in interfaces
    ]
    return json.dumps({"name": "x", "version": "1", "supportedInterfaces": offered}).encode()


HOME = "https://agent.example/a"
RESOLVED = {
    "agent.example": ["93.184.215.14", "2606:2800:21f::1"],
    "twin.example": ["93.184.215.14"],
    "other.example": ["8.8.8.8"],
    "inside.example": ["10.1.2.3"],
    "both.example": ["8.8.8.8", "10.1.2.3"],
    "localhost": ["127.0.0.1"],
    "dev.example": ["10.1.2.3", "10.1.2.4"],
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve names as :data:`RESOLVED` says, and numbers as they are."""

    async def getaddrinfo(_: object, host: str, port: int, **more: object) -> list[object]:
        found = RESOLVED.get(host, [host])
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, 0, 0, "", (ip, port)) for ip in found
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("home", "url", "ip"),
    [
        (HOME, "https://agent.example:8443/rpc", None),
        (HOME, "https://other.example/rpc", "8.8.8.8"),
        (HOME, "https://twin.example/rpc", "93.184.215.14"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9001/rpc", None),
        ("http://127.0.0.1:9000", "http://localhost:9001/rpc", "127.0.0.1"),
        ("http://localhost:9000", "http://0.0.0.0:9001/rpc", "127.0.0.1"),
        ("http://[::1]:9000", "http://127.0.0.1:9001/rpc", "127.0.0.1"),
        ("http://dev.example", "http://inside.example/rpc", "10.1.2.3"),
    ],
)
async def test_where_a_card_may_lead(home: str, url: str, ip: str | None) -> None:
    """To the host that was given, to the same machine by another name, or somewhere public."""
    target = await Reach(home).check(url)

    assert (None if target is None else target.ip) == ip


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("home", "url"),
    [
        (HOME, "http://agent.example/rpc"),
        (HOME, "https://127.0.0.1/rpc"),
        (HOME, "https://0.0.0.0/rpc"),
        (HOME, "https://localhost/rpc"),
        (HOME, "https://169.254.169.254/latest"),
        (HOME, "https://[::ffff:10.0.0.1]/rpc"),
        (HOME, "https://inside.example/rpc"),
        (HOME, "https://both.example/rpc"),
        (HOME, "https://user@other.example/rpc"),
        (HOME, "file:///etc/passwd"),
        (HOME, "unix:/var/run/docker.sock"),
        (HOME, ""),
        ("http://agent.example", "http://other.example/rpc"),
        ("http://127.0.0.1:9000", "http://169.254.169.254/latest"),
        ("http://inside.example", "http://dev.example/rpc"),
        ("http://0.0.0.0:9000", "http://127.0.0.1:9000/rpc"),
    ],
)
async def test_where_a_card_may_not_lead(home: str, url: str) -> None:
    """Into a network of ours, or out of TLS: nothing is sent."""
    with pytest.raises(AddressRefusedError, match="nothing is sent to"):
        await Reach(home).check(url)


@pytest.mark.usefixtures("names")
async def test_what_an_operator_allows() -> None:
    """A host or a network that was allowed is one where a card may lead, too."""
    by_host = await Reach("http://agent.example", ["inside.example"]).check("http://inside.example")
    by_network = await Reach(HOME, ["10.0.0.0/8"]).check("https://both.example/rpc")

    assert by_host is not None
    assert (by_host.ip, by_network and by_network.ip) == ("10.1.2.3", "8.8.8.8")


@pytest.mark.parametrize(
    ("binding", "url"),
    [
        ("JSONRPC", "http://169.254.169.254/latest"),
        ("HTTP+JSON", "https://10.0.0.1/rest"),
        ("GRPC", "10.0.0.1:50051"),
        ("GRPC", "unix:/var/run/docker.sock"),
        ("GRPC", "https://[::ffff:10.0.0.1]:443"),
    ],
)
async def test_a_card_that_lies(binding: str, url: str) -> None:
    """A card that leads into our network is no card; of several ways the honest one is taken."""
    async with answering(card((binding, url))) as home:
        remote = RemoteAgent(home)
        with pytest.raises(RemoteError, match="nothing is sent to"):
            await remote.card()
        with pytest.raises(RemoteError, match="was not read"):
            _ = remote.client
        await remote.aclose()
    async with answering(card((binding, url), ("JSONRPC", "http://127.0.0.1:1/rpc"))) as home:
        remote = RemoteAgent(home)
        found = await remote.card()
        assert (len(found.supported_interfaces), remote.is_grpc) == (2, False)
        await remote.aclose()


async def test_names_that_change_after_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was public when the card was read is screened again before each request."""
    now = ["8.8.8.8"]

    async def getaddrinfo(_: object, host: str, port: int, **more: object) -> list[object]:
        ip = now[0] if host == "rebinds.example" else "9.9.9.9"
        return [(socket.AF_INET, 0, 0, "", (ip, port))]

    sent: list[httpx.Request] = []

    async def take(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={})

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    mending = MendingTransport(httpx.MockTransport(take), Reach(HOME))
    async with httpx.AsyncClient(transport=mending) as http:
        await http.post("https://rebinds.example:8443/rpc", json={})
        now[0] = "10.0.0.1"
        with pytest.raises(AddressRefusedError):
            await http.post("https://rebinds.example:8443/rpc", json={})

    (request,) = sent
    assert str(request.url) == "https://8.8.8.8:8443/rpc"
    assert request.headers["host"] == "rebinds.example:8443"
    assert request.extensions["sni_hostname"] == "rebinds.example"


BIG = "\U0001f41d" * 1000


async def test_a_card_that_is_too_large_for_the_registry(bus_url: str) -> None:
    """What an agent says of itself is cut to what there is room for, and it takes part."""
    skill = {"id": BIG, "name": BIG, "description": BIG, "tags": [BIG] * 17, "examples": [BIG] * 9}
    said = {
        "name": BIG,
        "description": BIG,
        "version": BIG,
        "defaultInputModes": ["text/plain", BIG, "a\nb", "", *(f"x/{n}" for n in range(500))],
        "skills": [skill] * 6,
    }
    home = {**json.loads(card(("JSONRPC", "http://127.0.0.1:1/rpc"))), **said}
    async with (
        answering(json.dumps(home).encode()) as url,
        joined(bus_url, int(url.rpartition(":")[2])) as bus,
    ):
        record = await bus.registry.get(REMOTE)

    assert record is not None
    assert 1 <= len(record.card.skills) < 6
    assert record.card.input_modes[:2] == ("text/plain", "x/0")
    assert record.card.display_name == BIG[:119] + "…"


LINE = b'{"name": "' + b"x" * 1000 + b'"}'
GZIP = gzip.compress(b"[" * 10_000_000)


@pytest.mark.parametrize(
    ("body", "headers", "times", "reason"),
    [
        (LINE + b"\n", (), 10_000, "more than"),
        (b"x" * 1000, (), 10_000, "more than"),
        (GZIP, ((b"content-encoding", b"gzip"),), 1, "compressed"),
        (GZIP, ((b"content-encoding", b"GZIP, identity"),), 1, "compressed"),
    ],
)
async def test_answers_without_end(
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    times: int,
    reason: str,
) -> None:
    """A card that never ends, in one line or in many, or unpacks to gigabytes, is given up."""
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", LIMIT)
    async with answering(body, *headers, times=times) as home:
        remote = RemoteAgent(home)
        with pytest.raises(RemoteError, match=reason):
            await remote.card()
        await remote.aclose()


async def test_an_answer_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes by the byte for ever is given up, also where no pause is long."""
    monkeypatch.setattr(transport, "_ANSWER_S", 0.2)

    is_heard = asyncio.Event()

    async def drip(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not is_heard.is_set():
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.sleep(0)

    async with serving(drip, Address("127.0.0.1", 0)) as served:
        remote = RemoteAgent(served.url)
        with pytest.raises(RemoteError, match="took more than"):
            await remote.card()
        is_heard.set()
        await remote.aclose()


STREAM = (b"content-type", b"text/event-stream")


async def _read(url: str) -> list[str]:
    mending = MendingTransport(httpx.AsyncHTTPTransport(), Reach(url))
    async with (
        httpx.AsyncClient(transport=mending, timeout=PATIENCE_S) as http,
        http.stream("GET", url) as response,
    ):
        return [line async for line in response.aiter_lines()]


@pytest.mark.parametrize("body", [b"data: " + LINE + b"\n", b"data: " + LINE + b"\r\n", b"x" * 999])
async def test_events_without_end(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """An event of a stream is bounded, of however many lines it is."""
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", LIMIT)
    async with answering(body, STREAM, times=10_000) as url:
        with pytest.raises(httpx.DecodingError, match="more than"):
            await _read(url)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
async def test_streams_without_end(monkeypatch: pytest.MonkeyPatch, ends: bytes) -> None:
    """A stream may be longer than any answer, where its events are not; nothing of it is lost."""
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", LIMIT)
    async with answering(b"data: " + LINE + ends + ends, STREAM, times=500) as url:
        lines = await _read(url)

    assert lines.count("data: " + LINE.decode()) == 500


def working(task: str, state: str = "TASK_STATE_WORKING") -> bytes:
    """Return the answer to any method: a task."""
    found = {"id": task, "contextId": "c", "status": {"state": state}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": found, **found}}).encode()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([working("one"), working("two")], "about another task, two"),
        ([working("one", "TASK_STATE_DREAMING")], "a state that is none"),
        ([working("one", "")], "a state that is none"),
        ([working("one").replace(b'"TASK_STATE_WORKING"', b"77")], r"a state that is none \(77\)"),
    ],
)
async def test_nonsense(bus_url: str, answers: list[bytes], reason: str) -> None:
    """An answer about another task, or one in no state, is on record; the next attempt works."""
    server = Remote(streaming=False)
    async with server.running() as port, joined(bus_url, port) as bus:
        server.garbage = [working("one", "TASK_STATE_COMPLETED"), *answers[::-1]]
        task = (await bus.tasks.open("one", to=[REMOTE])).event.task
        (failed,) = await find(bus, task, HandlingFailed)
        answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=PATIENCE_S))

    assert isinstance(failed.data, HandlingFailed)
    assert re.search(reason, failed.data.error.message)
    assert answer.text == "Done."


@pytest.mark.parametrize(
    "update",
    [
        {"statusUpdate": {"taskId": "two", "status": {"state": "TASK_STATE_WORKING"}}},
        {"statusUpdate": {"taskId": "one", "status": {"state": 99}}},
        {"artifactUpdate": {"taskId": "two", "artifact": {"parts": [{"text": "x"}]}}},
        {"task": {"id": "two", "status": {"state": "TASK_STATE_WORKING"}}},
    ],
)
async def test_updates_of_another_task(update: Json) -> None:
    """An update in a stream, of another task than the one before it, is refused."""
    urls: list[str] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        first = json.loads(working("one"))
        second = {"jsonrpc": "2.0", "id": 1, "result": update}
        first["result"] = {"task": first["result"]["task"]}
        events = "".join(f"data: {json.dumps(one)}\r\n\r\n" for one in (first, second))
        offer = json.loads(card(("JSONRPC", f"{urls[0]}/rpc")))
        offer["capabilities"] = {"streaming": True}
        is_card = scope["method"] == "GET"
        kind = (b"content-type", b"application/json") if is_card else STREAM
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        body = json.dumps(offer) if is_card else events
        await send({"type": "http.response.body", "body": body.encode()})

    async with serving(answer, Address("127.0.0.1", 0)) as served:
        urls.append(served.url)
        remote = RemoteAgent(served.url)
        await remote.card()
        task = RemoteTask(remote)
        message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="x")])
        async with aclosing(task.updates(message)) as updates:
            assert (await anext(updates)).task.id == "one"
            with pytest.raises(RemoteError, match=r"about another task|a state that is none"):
                await anext(updates)
        await remote.aclose()


@pytest.mark.parametrize(
    ("name", "limit", "what"),
    [("_MAX_CHUNKS", 5, "pieces of artifacts"), ("_MAX_ARTIFACT_BYTES", 20, "bytes of artifacts")],
)
async def test_artifacts_without_end(
    bus_url: str, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, what: str
) -> None:
    """An agent that never stops making artifacts is stopped, and the asker is told why."""
    monkeypatch.setattr(talking, name, limit)
    server = Remote()
    async with server.running() as port, joined(bus_url, port) as bus:
        task = (await bus.tasks.open("flood", to=[REMOTE])).event.task
        (closed,) = await find(bus, task, TaskClosed)
        async with asyncio.timeout(PATIENCE_S):
            await server.executor.cancelled.wait()

    assert isinstance(closed.data, TaskClosed)
    assert closed.data.outcome is TaskStatus.FAILED
    assert what in closed.data.summary
