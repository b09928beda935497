"""Remote A2A agents that take part: streaming, polling, of version 0.3, gone and back."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.a2a_remote import REMOTE, Remote, joined
from tests.support.cli import Cli
from tests.support.eventually import eventually
from tests.support.running_agents import find, log_of
from threadbus.bus import BusSettings, connect
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.errors import MissingExtraError, RemoteError
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import (
    MAIN_THREAD,
    ArtifactAdded,
    DataPart,
    HandlingFailed,
    InputRequested,
    Part,
    TextPart,
    text_of,
)

WHO = "t-1"
KINDS: dict[str, Callable[[], Remote]] = {
    "streams": Remote,
    "polls": lambda: Remote(streaming=False),
    "0.3": lambda: Remote(version="0.3"),
    "grpc": lambda: Remote(over_grpc=True),
    "grpc polls": lambda: Remote(over_grpc=True, streaming=False),
}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Remote:
    """A remote agent of each kind."""
    return KINDS[str(request.param)]()


async def test_asked_and_answered(bus_url: str, server: Remote) -> None:
    """A question on the bus is a message to it; what it ends with is the answer."""
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("hello \u2028 there", to=[REMOTE])
        record = await bus.registry.get(REMOTE)

    assert answer.text == "heard hello \u2028 there\u2028"
    traces = [headers["traceparent"] for headers in server.headers if "traceparent" in headers]
    assert {trace.split("-")[1] for trace in traces} == {answer.task}
    assert record is not None
    assert (record.card.title, record.card.skills[0].id) == ("Remote One", "hear")


async def test_a_question_of_its_own(bus_url: str, server: Remote) -> None:
    """What it needs to know is asked of whoever opened the task, and the answer goes back."""
    async with server.running() as port, joined(bus_url, port) as bus:
        opened = await bus.tasks.open("ask", to=[REMOTE])
        task = opened.event.task
        (asked,) = await find(bus, task, InputRequested)
        await bus.tasks.give_input(task, "net")
        answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=30))

    assert isinstance(asked.data, InputRequested)
    assert text_of(asked.data.parts) == "gross or net?"
    assert answer.text == "heard net\u2028"


async def test_artifacts_come_in_chunks(bus_url: str, server: Remote) -> None:
    """Its artifacts are artifacts of the super-task, each piece once."""
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("file", to=[REMOTE])
        events = await log_of(bus, answer.task)
        added = [event for event in events if isinstance(event.data, ArtifactAdded)]

    assert [event.data.part for event in added] == [TextPart("one "), TextPart("two")]  # type: ignore[union-attr]
    assert [event.data.chunk_of for event in added] == [None, added[0].id]  # type: ignore[union-attr]


async def test_streams_that_are_cut(bus_url: str) -> None:
    """A stream that breaks off is taken up again; each piece comes once, the work is done once."""
    server = Remote()
    async with server.running() as port, joined(bus_url, port) as bus:
        server.cuts = 2
        answer = await bus.ask("file", to=[REMOTE])
        log = await log_of(bus, answer.task)
    added = [event.data.part for event in log if isinstance(event.data, ArtifactAdded)]

    assert server.cuts < 2
    assert answer.text == "heard file\u2028"
    assert added == [TextPart("one "), TextPart("two")]
    assert len(server.executor.contexts) == 1


@pytest.mark.parametrize(
    ("streaming", "body"),
    [(True, b"[" * 50_000), (False, b'{"jsonrpc": "2.0", "id": 1, "result": {"task": []}}')],
)
async def test_garbage_for_an_answer(bus_url: str, streaming: bool, body: bytes) -> None:
    """An answer that is none is on record as a failure of the attempt; the next one works."""
    server = Remote(streaming=streaming)
    async with server.running() as port, joined(bus_url, port) as bus:
        server.garbage = [body]
        task = (await bus.tasks.open("one", to=[REMOTE])).event.task
        (failed,) = await find(bus, task, HandlingFailed)
        answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=30))

    assert isinstance(failed.data, HandlingFailed)
    assert "the remote agent at" in failed.data.error.message
    assert answer.text == "heard one\u2028"


async def test_a_task_without_a_history(bus_url: str) -> None:
    """A remote agent that keeps no history is understood all the same."""
    server = Remote(streaming=False)
    server.executor.keeps_history = False
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("file", to=[REMOTE])

    assert answer.text == "heard file\u2028"


async def test_a_failure_is_told(bus_url: str) -> None:
    """What fails there fails here, with its reason."""
    async with Remote().running() as port, joined(bus_url, port) as bus:
        opened = await bus.tasks.open("fail", to=[REMOTE])
        closed = await bus.waits.for_close(opened.event.task, timeout=timedelta(seconds=30))

    assert "no paper" in str(closed.data)


async def test_a_message_instead_of_a_task(bus_url: str) -> None:
    """A remote agent that answers by a plain message has answered."""
    async with Remote().running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("chat", to=[REMOTE])

    assert answer.text == "just words"


async def test_one_thread_is_one_context(bus_url: str) -> None:
    """Further messages of a thread go on in the remote agent's context."""
    server = Remote()
    async with server.running() as port, joined(bus_url, port) as bus:
        task = (await bus.tasks.open("talk", to=[], participants=[REMOTE])).event.task
        for text in ("one", "two"):
            await bus.request(task, MAIN_THREAD, text, to=REMOTE)

    assert len(server.executor.contexts) == 2
    assert len(set(server.executor.contexts)) == 1


async def test_a_cancelled_task_is_cancelled_there(bus_url: str) -> None:
    """The end of the super-task reaches the remote agent."""
    server = Remote()
    async with server.running() as port, joined(bus_url, port) as bus:
        task = (await bus.tasks.open("wait", to=[REMOTE])).event.task
        async with asyncio.timeout(30):
            await server.executor.started.wait()
            await bus.tasks.cancel(task)
            await server.executor.cancelled.wait()


async def test_cancelled_while_it_was_away(bus_url: str) -> None:
    """Back again, it is not asked what nobody wants to know any more."""
    server = Remote()
    async with connect(BusSettings(url=bus_url), name="user") as bus:
        task = (await bus.tasks.open("too late", to=[REMOTE])).event.task
        await bus.tasks.cancel(task)
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("in time", to=[REMOTE])

    assert answer.text == "heard in time\u2028"
    assert not any("too late" in body for body in server.asked)


async def test_gone_and_back(bus_url: str) -> None:
    """Gone, it is not living and its mentions wait; back, they are answered."""

    async def lives() -> bool:
        return REMOTE in {agent.name for agent in await bus.registry.living()}

    async with AsyncExitStack() as stack:
        async with Remote().running() as port:
            bus = await stack.enter_async_context(joined(bus_url, port, look_every_s=0.2))
            assert await lives()

        async def gone() -> bool:
            return not await lives()

        await eventually(gone, "it is not living")
        task = (await bus.tasks.open("are you there?", to=[REMOTE])).event.task
        async with Remote().running(port):
            answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=30))

    assert answer.text == "heard are you there?\u2028"


async def test_what_it_left_is_on_record(bus_url: str) -> None:
    """Gone in the middle of its work, the attempt is on record as failed."""
    server = Remote()
    async with AsyncExitStack() as stack:
        async with server.running() as port:
            bus = await stack.enter_async_context(joined(bus_url, port, look_every_s=0.2))
            task = (await bus.tasks.open("wait", to=[REMOTE])).event.task
            async with asyncio.timeout(30):
                await server.executor.started.wait()
        failed = await find(bus, task, HandlingFailed)
        await bus.tasks.cancel(task)

    assert failed


async def test_grpc_only(bus_url: str) -> None:
    """An agent that offers nothing but gRPC gets who we are, and data with each digit."""
    server = Remote(over_grpc=True)
    asked: list[Part] = [TextPart("hello"), DataPart({"small": 7, "large": 2**60 + 1})]
    async with server.running() as port, joined(bus_url, port, token=WHO) as bus:
        answer = await bus.ask(asked, to=[REMOTE])
    (heard,) = server.executor.messages
    fields = heard.parts[1].data.struct_value.fields

    assert answer.text.startswith("heard hello")
    assert not any("SendMessage" in body for body in server.asked)
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {WHO}"}
    assert fields["small"].number_value == 7
    assert fields["large"].string_value == str(2**60 + 1)


async def test_grpc_that_is_not_installed(bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra an agent that offers nothing else cannot take part, and is told why."""
    monkeypatch.setitem(sys.modules, "threadbus.gateways.a2a.channels", None)
    async with Remote(over_grpc=True).running() as port:
        remote = RemoteAgent(f"http://127.0.0.1:{port}")
        with pytest.raises(MissingExtraError, match=re.escape("threadbus[grpc]")):
            await remote.card()
        await remote.aclose()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b'{"name": 5}',
        b'{"supportedInterfaces": 5}',
        b'{"supportedInterfaces": [{"protocolBinding": "SMTP", "url": "x"}]}',
        b'{"skills": [[]]}',
        b'{"securitySchemes": [1]}',
        b'{"capabilities": {"streaming": "perhaps"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
async def test_what_is_no_card(body: bytes) -> None:
    """Garbage in place of a card is an error that names the address, and ends nothing."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async with serving(answer, Address("127.0.0.1", 0)) as served:
        remote = RemoteAgent(served.url)
        with pytest.raises(RemoteError, match=re.escape(served.url)):
            await remote.card()
        await remote.aclose()


async def test_what_a_client_cannot_be_started_with(cli: Cli, tmp_path: Path) -> None:
    """An address, or a file of a secret, that cannot be used is named, with what it has to be."""
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo")
    given: list[tuple[list[str], str]] = [
        (["http://x?q=1"], "URL 'http://x?q=1'"),
        (["http://x", "--token-file", str(lines)], "--token-file"),
        (["http://x", "--allow", "a/b"], "--allow 'a/b'"),
    ]
    found = await asyncio.gather(
        *(cli("gateway", "a2a-client", "--name", "far", *words) for words, _ in given)
    )

    assert {ran.code for ran in found} == {2}
    for ran, (_, said) in zip(found, given, strict=True):
        assert said in ran.err
