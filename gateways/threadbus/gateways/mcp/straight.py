"""The short way of a tool call over HTTP: in the task of its request, as long as it is quick.

For each request of the newer protocol the SDK opens a group of tasks with a stream between them,
so that it can look whether the host is still there and keep its connection alive. Here a call is
read, judged and served by the same functions of the SDK, and only what takes longer gets a task
beside it that does both, in the same words. Whatever is not plainly a good call of a tool goes the
way of the SDK, which has an answer for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadbus.gateways.mcp.toolbox import ALIASES
from threadbus.gateways.web.limits import header

_METHOD: Final = "tools/call"
_ONCE: Final = frozenset({MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER})
_MOMENT_S: Final = 0.1
"""A call that takes longer gets a task beside it."""

_PING_S: Final = 15.0
"""Seconds of silence after which a proxy might cut the connection; as in the SDK."""

_SSE_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


class _Call(NamedTuple):
    """A good call of a tool."""

    request_id: str | int
    params: dict[str, Any]
    route: InboundModernRoute


class Straight:
    """Serves calls of tools the short way; everything else by the application of the SDK."""

    def __init__(self, app: ASGIApp, server: Server[Any]) -> None:
        """Wrap *app*.

        Args:
            app: the SDK's, for all other requests.
            server: what both serve.
        """
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or not _may_be_straight(scope):
            await self._app(scope, receive, send)
            return
        message = await receive()
        call = None
        if message["type"] == "http.request" and not message.get("more_body", False):
            call = _call_in(scope, message.get("body", b""))
        if call is None:
            await self._app(scope, _again(message, receive), send)
            return
        answering = _Answering(scope, receive, send, call)
        await answering.run(self._server)


def _may_be_straight(scope: Scope) -> bool:
    return (
        scope["method"] == "POST"
        and header(scope, MCP_METHOD_HEADER.encode()) == _METHOD
        and header(scope, MCP_PROTOCOL_VERSION_HEADER.encode()) in MODERN_PROTOCOL_VERSIONS
    )


def _again(message: Message, receive: Receive) -> Receive:
    pending = [message]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _call_in(scope: Scope, body: bytes) -> _Call | None:
    """Return the call that a request is; None where the SDK has to look at it."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name in headers and name in _ONCE:
            return None
        headers[name] = raw_value.decode("latin-1")
    accept = headers.get("accept", "").lower()
    if (
        not headers.get("content-type", "").lower().startswith("application/json")
        or "application/json" not in accept
        or "text/event-stream" not in accept
    ):
        return None
    try:
        # Numbers and texts are to be what the SDK would make of them.
        decoded: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    envelope = cast("dict[str, Any]", decoded)
    request_id, params = envelope.get("id"), envelope.get("params")
    if (
        envelope.get("jsonrpc") != "2.0"
        or type(request_id) not in {str, int}
        or not isinstance(params, dict)
    ):
        return None
    arguments = cast("dict[str, Any]", params)
    if arguments.get("name") in ALIASES:
        # These tell from the end of a request whether the host has had their result.
        return None
    route = classify_inbound_request(envelope, headers=headers)
    if not isinstance(route, InboundModernRoute):
        return None
    return _Call(cast("str | int", request_id), arguments, route)


class _Answering:
    """One call on its way; what the SDK calls the context of a dispatch."""

    can_send_request = False
    """The newer protocol has no way to ask a host in the middle of a call."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, call: _Call) -> None:
        request = Request(scope)
        self._receive = receive
        self._send = send
        self._call = call
        self._is_streaming = False
        self._writing = asyncio.Lock()
        self._has_gone = False
        self._beside: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[Any] | None = None
        self.request_id = call.request_id
        self.progress_token = progress_token_from_params(call.params)
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.transport = TransportContext(
            kind="streamable-http", can_send_request=False, headers=request.headers
        )
        self.cancel_requested = anyio.Event()

    async def run(self, server: Server[Any]) -> None:
        """Serve the call and write its answer.

        Cancellation: the call is cancelled.
        """
        self._serving = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(_MOMENT_S, self._accompany)
        try:
            try:
                status, reply = await self._reply(server)
            finally:
                timer.cancel()
                await self._leave_alone()
            await self._finish(status, reply)
        except asyncio.CancelledError:
            # The host has gone; nobody reads an answer. Unless somebody else wants an end as well.
            if not self._has_gone or self._serving is None or self._serving.uncancel():
                raise

    async def _reply(self, server: Server[Any]) -> tuple[int, dict[str, Any]]:
        version, info, capabilities = (
            self._call.route.protocol_version,
            self._call.route.client_info,
            self._call.route.client_capabilities,
        )
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": self.request_id}
        try:
            result = await serve_one(
                server,
                self,
                _METHOD,
                self._call.params,
                connection=Connection.from_envelope(version, info, capabilities),
                lifespan_state={},
            )
        except Exception as error:
            data = modern_error_data(error)
            wire = data.model_dump(mode="json", by_alias=True, exclude_none=True)
            return ERROR_CODE_HTTP_STATUS.get(data.code, 200), said | {"error": wire}
        return 200, said | {"result": result}

    async def _finish(self, status: int, reply: dict[str, Any]) -> None:
        body = _encoded(reply)
        if self._is_streaming:
            await self._send_body(_event(body), more=False)
            return
        headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send_body(body, more=False)

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    # what the SDK may want of it meanwhile

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse to ask the host."""
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Tell the host something before the answer; from now on that is a stream of events."""
        said: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            said["params"] = dict(params)
        await self._stream(_event(_encoded(said)))

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far the call is, where the host asked for that."""
        if self.progress_token is None:
            return
        said: dict[str, Any] = {"progressToken": self.progress_token, "progress": progress}
        if total is not None:
            said["total"] = total
        if message is not None:
            said["message"] = message
        await self.notify("notifications/progress", said)

    async def _stream(self, body: bytes) -> None:
        # The call and the task beside it may both have something to say.
        async with self._writing:
            if not self._is_streaming:
                await self._send(
                    {"type": "http.response.start", "status": 200, "headers": list(_SSE_HEADERS)}
                )
                self._is_streaming = True
            await self._send_body(body, more=True)

    # beside a call that takes longer

    def _accompany(self) -> None:
        self._beside = asyncio.create_task(self._look_after(), name="threadbus.mcp.straight")

    async def _leave_alone(self) -> None:
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait({self._beside})
            if not self._beside.cancelled():
                # Read, so that nobody warns of it: a host that cannot be written to has gone.
                self._beside.exception()

    async def _look_after(self) -> None:
        """Keep the connection alive, and end the call once its host has gone."""
        while True:
            try:
                async with asyncio.timeout(_PING_S):
                    message = await self._receive()
            except TimeoutError:
                await self._stream(b": ping\r\n\r\n")
                continue
            if message["type"] == "http.disconnect":
                self._has_gone = True
                if self._serving is not None:
                    self._serving.cancel()
                return


def _event(body: bytes) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % body


def _encoded(said: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(said)
    except (UnicodeEncodeError, TypeError, OverflowError):
        # What the SDK decoded may hold half of a character, or a number of any size.
        return json.dumps(said, separators=(",", ":")).encode()
