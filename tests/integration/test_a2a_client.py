"""Remote A2A agents that take part: streaming, polling, of version 0.3, gone and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from tests.support.eventually import eventually
from tests.support.running_agents import find, log_of
from threadbus.bus import Bus, BusSettings, connect
from threadbus.gateways.a2a.joining import join
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    ArtifactAdded,
    HandlingFailed,
    InputRequested,
    TextPart,
    text_of,
)

REMOTE = AgentName("remote")


class Executor(AgentExecutor):
    """A remote agent of the SDK that does what the text of a message asks for."""

    def __init__(self) -> None:
        self.contexts: list[str] = []
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        task = context.current_task
        text = context.get_user_input()
        if task is None:
            if text == "chat":
                await event_queue.enqueue_event(new_text_message("just words"))
                return
            task = pb.Task(
                id=context.task_id or "",
                context_id=context.context_id or "",
                status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED),
                history=[context.message] if context.message else [],
            )
            self.contexts.append(task.context_id)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([pb.Part(text="on it\u2028still")]))
        if text == "ask":
            question = updater.new_agent_message([pb.Part(text="gross or net?")])
            await updater.requires_input(question)
            return
        if text == "fail":
            await updater.failed(updater.new_agent_message([pb.Part(text="no paper")]))
            return
        if text == "wait":
            self.started.set()
            await asyncio.Event().wait()
        if text == "file":
            parts = [pb.Part(text="one ")]
            await updater.add_artifact(parts, artifact_id="a", name="log", last_chunk=False)
            await updater.add_artifact(
                [pb.Part(text="two")], artifact_id="a", name="log", append=True, last_chunk=True
            )
        await updater.complete(updater.new_agent_message([pb.Part(text=f"heard {text}\u2028")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop."""
        self.cancelled.set()
        task = context.current_task
        if task is not None:
            await TaskUpdater(event_queue, task.id, task.context_id).cancel()


class Server:
    """The SDK's own server around the executor."""

    def __init__(self, *, streaming: bool = True, version: str = "1.0") -> None:
        self.executor = Executor()
        self._streaming = streaming
        self._version = version

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncGenerator[int]:
        """Serve; give the port."""
        card = pb.AgentCard(
            name="Remote One",
            description="Hears.",
            version="2",
            capabilities=pb.AgentCapabilities(streaming=self._streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[pb.AgentSkill(id="hear", name="Hear", description="Hears.", tags=["ears"])],
        )
        handler = DefaultRequestHandler(self.executor, InMemoryTaskStore(), card)
        routes = create_agent_card_routes(card)
        routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
        app = Starlette(routes=routes)
        deadline = timedelta(seconds=1)
        async with serving(app, Address("127.0.0.1", port), stop_deadline=deadline) as served:
            card.supported_interfaces.add(
                url=f"{served.url}/rpc", protocol_binding="JSONRPC", protocol_version=self._version
            )
            try:
                yield served.address.port
            finally:
                await handler.aclose()


@asynccontextmanager
async def joined(bus_url: str, port: int, *, look_every_s: float = 5.0) -> AsyncGenerator[Bus]:
    """Let the server at *port* take part; give a bus to talk to it."""
    stop = asyncio.Event()
    settings = BusSettings(url=bus_url, drain_timeout=timedelta(seconds=0.1))
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(settings, name="user"))
        ready = asyncio.Event()
        remote = RemoteAgent(f"http://127.0.0.1:{port}")
        work = asyncio.create_task(
            join(settings, remote, REMOTE, stop, on_ready=ready.set, look_every_s=look_every_s)
        )
        try:
            async with asyncio.timeout(30):
                await ready.wait()
            yield bus
        finally:
            stop.set()
            await work


@pytest.fixture(params=["streams", "polls", "0.3"])
def server(request: pytest.FixtureRequest) -> Server:
    """A remote agent of each kind."""
    return Server(
        streaming=request.param != "polls", version="0.3" if request.param == "0.3" else "1.0"
    )


async def test_asked_and_answered(bus_url: str, server: Server) -> None:
    """A question on the bus is a message to it; what it ends with is the answer."""
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("hello \u2028 there", to=[REMOTE])
        record = await bus.registry.get(REMOTE)

    assert answer.text == "heard hello \u2028 there\u2028"
    assert record is not None
    assert (record.card.title, record.card.skills[0].id) == ("Remote One", "hear")


async def test_a_question_of_its_own(bus_url: str, server: Server) -> None:
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


async def test_artifacts_come_in_chunks(bus_url: str, server: Server) -> None:
    """Its artifacts are artifacts of the super-task, each piece once."""
    async with server.running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("file", to=[REMOTE])
        events = await log_of(bus, answer.task)
        added = [event for event in events if isinstance(event.data, ArtifactAdded)]

    assert [event.data.part for event in added] == [TextPart("one "), TextPart("two")]  # type: ignore[union-attr]
    assert [event.data.chunk_of for event in added] == [None, added[0].id]  # type: ignore[union-attr]


async def test_a_failure_is_told(bus_url: str) -> None:
    """What fails there fails here, with its reason."""
    async with Server().running() as port, joined(bus_url, port) as bus:
        opened = await bus.tasks.open("fail", to=[REMOTE])
        closed = await bus.waits.for_close(opened.event.task, timeout=timedelta(seconds=30))

    assert "no paper" in str(closed.data)


async def test_a_message_instead_of_a_task(bus_url: str) -> None:
    """A remote agent that answers by a plain message has answered."""
    async with Server().running() as port, joined(bus_url, port) as bus:
        answer = await bus.ask("chat", to=[REMOTE])

    assert answer.text == "just words"


async def test_one_thread_is_one_context(bus_url: str) -> None:
    """Further messages of a thread go on in the remote agent's context."""
    server = Server()
    async with server.running() as port, joined(bus_url, port) as bus:
        task = (await bus.tasks.open("talk", to=[], participants=[REMOTE])).event.task
        for text in ("one", "two"):
            await bus.request(task, MAIN_THREAD, text, to=REMOTE)

    assert len(server.executor.contexts) == 2
    assert len(set(server.executor.contexts)) == 1


async def test_a_cancelled_task_is_cancelled_there(bus_url: str) -> None:
    """The end of the super-task reaches the remote agent."""
    server = Server()
    async with server.running() as port, joined(bus_url, port) as bus:
        task = (await bus.tasks.open("wait", to=[REMOTE])).event.task
        async with asyncio.timeout(30):
            await server.executor.started.wait()
            await bus.tasks.cancel(task)
            await server.executor.cancelled.wait()


async def test_gone_and_back(bus_url: str) -> None:
    """Gone, it is not living and its mentions wait; back, they are answered."""

    async def lives() -> bool:
        return REMOTE in {agent.name for agent in await bus.registry.living()}

    async with AsyncExitStack() as stack:
        async with Server().running() as port:
            bus = await stack.enter_async_context(joined(bus_url, port, look_every_s=0.2))
            assert await lives()

        async def gone() -> bool:
            return not await lives()

        await eventually(gone, "it is not living")
        task = (await bus.tasks.open("are you there?", to=[REMOTE])).event.task
        async with Server().running(port):
            answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=30))

    assert answer.text == "heard are you there?\u2028"


async def test_what_it_left_is_on_record(bus_url: str) -> None:
    """Gone in the middle of its work, the attempt is on record as failed."""
    server = Server()
    async with AsyncExitStack() as stack:
        async with server.running() as port:
            bus = await stack.enter_async_context(joined(bus_url, port, look_every_s=0.2))
            task = (await bus.tasks.open("wait", to=[REMOTE])).event.task
            async with asyncio.timeout(30):
                await server.executor.started.wait()
        failed = await find(bus, task, HandlingFailed)
        await bus.tasks.cancel(task)

    assert failed
