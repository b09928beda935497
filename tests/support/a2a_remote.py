"""A remote A2A agent of the SDK, and a bus that it takes part in."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc.aio
import httpx
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from threadbus.bus import Bus, BusSettings, connect
from threadbus.gateways.a2a.joining import join
from threadbus.gateways.a2a.receiving import receiving
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import AgentName

REMOTE = AgentName("remote")


class Executor(AgentExecutor):
    """A remote agent of the SDK that does what the text of a message asks for."""

    def __init__(self) -> None:
        self.contexts: list[str] = []
        self.answers: list[str] = []
        self.keeps_history = True
        self.messages: list[pb.Message] = []
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        task = context.current_task
        text = context.get_user_input()
        if context.message is not None:
            self.messages.append(context.message)
        if task is None:
            if text == "chat":
                await event_queue.enqueue_event(new_text_message("just words"))
                return
            task = pb.Task(
                id=context.task_id or "",
                context_id=context.context_id or "",
                status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED),
                history=[context.message] if context.message and self.keeps_history else [],
            )
            self.contexts.append(task.context_id)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([pb.Part(text="on it\u2028still")]))
        if text == "ask":
            question = updater.new_agent_message([pb.Part(text="gross or net?")])
            await updater.requires_input(question)
            return
        if text == "ask twice":
            await updater.requires_input(updater.new_agent_message([pb.Part(text="net?")]))
            self.answers.append("")
            return
        if self.answers and len(self.answers) < 3:
            self.answers.append(text)
            if len(self.answers) == 2:
                await updater.requires_input(updater.new_agent_message([pb.Part(text="euros?")]))
                return
            text = ", ".join(self.answers[1:])
            await updater.complete(updater.new_agent_message([pb.Part(text=f"heard {text}")]))
            return
        if text == "fail":
            await updater.failed(updater.new_agent_message([pb.Part(text="no paper")]))
            return
        if text == "wait":
            self.started.set()
            await asyncio.Event().wait()
        if text == "flood":
            for number in itertools.count():
                await updater.add_artifact([pb.Part(text=str(number))], name=f"piece {number}")
                await asyncio.sleep(0)
        if text == "file":
            parts = [pb.Part(text="one ")]
            await updater.add_artifact(parts, artifact_id="a", name="log", last_chunk=False)
            await updater.add_artifact(
                [pb.Part(text="two")], artifact_id="a", name="log", append=True, last_chunk=True
            )
        last = updater.new_agent_message([pb.Part(text=f"heard {text}\u2028")])
        if text == "metadata":
            parts = [pb.Part(text="one"), pb.Part(text="two")]
            parts[0].metadata["of"] = "part"
            await updater.add_artifact(parts, metadata={"of": "artifact"}, last_chunk=True)
            last.metadata["of"] = "answer"
        await updater.complete(last)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop."""
        self.cancelled.set()
        task = context.current_task
        if task is not None:
            await TaskUpdater(event_queue, task.id, task.context_id).cancel()


class Remote:
    """The SDK's own server around the executor."""

    def __init__(
        self,
        *,
        streaming: bool = True,
        version: str = "1.0",
        push: bool = False,
        takes_url: Callable[[str], Awaitable[bool]] | None = None,
        over_grpc: bool = False,
    ) -> None:
        """Prepare.

        Args:
            streaming: whether its card offers streams.
            version: of the protocol, on its card.
            push: whether its card offers push notifications.
            takes_url: says whether it pushes to an address; to every one when absent.
            over_grpc: its card offers nothing but gRPC.
        """
        self.executor = Executor()
        self.configs = InMemoryPushNotificationConfigStore()
        self.cuts = 0
        """How many streams are cut after two events."""
        self.garbage: list[bytes] = []
        """What the next requests are answered with, in place of an answer."""
        self.asked: list[str] = []
        """The bodies of the requests that came over HTTP."""
        self.headers: list[Mapping[str, str]] = []
        """What came along with each request."""
        self._streaming = streaming
        self._version = version
        self._push = push
        self._takes_url = takes_url
        self._over_grpc = over_grpc

    def count(self, method: str) -> int:
        """Return how often a method was called over HTTP."""
        return sum(f'"{method}"' in body for body in self.asked)

    async def pushed(self, task: str) -> list[pb.TaskPushNotificationConfig]:
        """Return where updates of a task are pushed to."""
        return list(await self.configs.get_info_for_dispatch(task))

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncGenerator[int]:
        """Serve; give the port."""
        card = pb.AgentCard(
            name="Remote One",
            description="Hears.",
            version="2",
            capabilities=pb.AgentCapabilities(
                streaming=self._streaming, push_notifications=self._push
            ),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[pb.AgentSkill(id="hear", name="Hear", description="Hears.", tags=["ears"])],
        )
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=5))
            handler = DefaultRequestHandler(
                self.executor,
                InMemoryTaskStore(),
                card,
                push_config_store=self.configs if self._push else None,
                push_sender=BasePushNotificationSender(http, self.configs) if self._push else None,
                push_url_validator=self._takes_url,
            )
            stack.push_async_callback(handler.aclose)
            routes = create_agent_card_routes(card)
            routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)
            served = await stack.enter_async_context(
                serving(
                    self._listening(Starlette(routes=routes)),
                    Address("127.0.0.1", port),
                    stop_deadline=timedelta(seconds=1),
                )
            )
            if self._over_grpc:
                target = await stack.enter_async_context(self._grpc(handler))
                card.supported_interfaces.add(
                    url=target, protocol_binding="GRPC", protocol_version="1.0"
                )
            else:
                card.supported_interfaces.add(
                    url=f"{served.url}/rpc",
                    protocol_binding="JSONRPC",
                    protocol_version=self._version,
                )
            yield served.address.port

    def _listening(self, app: ASGIApp) -> ASGIApp:
        """Keep what is asked."""

        async def listen(scope: Scope, receive: Receive, send: Send) -> None:
            is_stream, events = False, 0

            async def heard() -> Any:
                message = await receive()
                self.asked.append(message.get("body", b"").decode())
                return message

            async def say(message: Any) -> None:
                nonlocal is_stream, events
                if message["type"] == "http.response.start":
                    is_stream = b"text/event-stream" in str(message["headers"]).encode()
                elif is_stream and message.get("body"):
                    events += 1
                    if events > 2 and self.cuts:
                        self.cuts -= 1
                        raise ConnectionError("cut by the test")
                await send(message)

            if scope["type"] == "http":
                pairs = [(key.decode(), value.decode()) for key, value in scope["headers"]]
                self.headers.append(dict(pairs))
            if self.garbage and scope["type"] == "http" and scope["method"] == "POST":
                await heard()
                headers = [(b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": self.garbage.pop()})
                return
            await app(scope, heard, say)

        return listen

    @asynccontextmanager
    async def _grpc(self, handler: DefaultRequestHandler) -> AsyncGenerator[str]:
        """Serve the same over gRPC; give the address."""
        server = grpc.aio.server(interceptors=[_Hearing(self.headers)])
        generated: Any = a2a_pb2_grpc
        generated.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(1)


class _Hearing(grpc.aio.ServerInterceptor):
    def __init__(self, headers: list[Mapping[str, str]]) -> None:
        self._headers = headers

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        self._headers.append(dict(handler_call_details.invocation_metadata or ()))
        return await continuation(handler_call_details)


@asynccontextmanager
async def joined(
    bus_url: str,
    port: int,
    *,
    look_every_s: float = 5.0,
    push: bool = False,
    path: str = "",
    token: str = "",
) -> AsyncGenerator[Bus]:
    """Let the server at *port* take part; give a bus to talk to it.

    Args:
        bus_url: the bus.
        port: where it listens on this machine.
        look_every_s: how often its card is fetched, in seconds.
        push: whether it may push its updates.
        path: what its address goes on with.
        token: a bearer token that it takes.
    """
    stop = asyncio.Event()
    settings = BusSettings(url=bus_url, drain_timeout=timedelta(seconds=0.1))
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(settings, name="user"))
        bells = None
        if push:
            bells = await stack.enter_async_context(receiving(Address("127.0.0.1", 0)))
        ready = asyncio.Event()
        remote = RemoteAgent(f"http://127.0.0.1:{port}{path}", token)
        work = asyncio.create_task(
            join(
                settings,
                remote,
                REMOTE,
                stop,
                on_ready=ready.set,
                look_every_s=look_every_s,
                bells=bells,
            )
        )
        try:
            async with asyncio.timeout(30):
                await ready.wait()
            yield bus
        finally:
            stop.set()
            await work
