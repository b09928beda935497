"""A gateway for the a2a-tck, which sends one messageId again and means another message each time.

For the gateway a repeated messageId is the same message, so this gives each an id of its own; what
a scenario is chosen by, the beginning of the id, stays. The suite knows no tokens, so each request
is given one: only who has one gets the extended card.

Run it with ``python -m tests.support.a2a_tck_gateway NATS_URL PORT [GRPC_PORT]``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import grpc.aio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadbus.bus import BusSettings
from threadbus.gateways.a2a.gateway import GatewayOptions, running
from threadbus.gateways.principals import add_token
from threadbus.gateways.web.serving import Address
from threadbus.schemas import AgentName

_numbers = itertools.count()


def _unique(message_id: str) -> str:
    return f"{message_id}#{next(_numbers)}"


class UniqueIds:
    """Makes the id of each message unique, and signs each request in."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Change the body on its way in."""
        if scope["type"] == "http":
            signed = (b"x-api-key", self._token.encode())
            scope = {**scope, "headers": [*scope["headers"], signed]}
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        body = self._changed(body)
        headers = [
            (name, str(len(body)).encode() if name == b"content-length" else value)
            for name, value in scope["headers"]
        ]
        pending: list[Message] = [{"type": "http.request", "body": body}]

        async def changed() -> Message:
            return pending.pop() if pending else await receive()

        await self._app({**scope, "headers": headers}, changed, send)

    def _changed(self, body: bytes) -> bytes:
        try:
            request: dict[str, Any] = json.loads(body)
            message: dict[str, Any] = request.get("params", request)["message"]
            if not message["messageId"]:
                return body
        except (ValueError, KeyError, TypeError, AttributeError):
            # The gateway says what is wrong with it.
            return body
        message["messageId"] = _unique(message["messageId"])
        return json.dumps(request).encode()


class UniqueIdsOverGrpc(grpc.aio.ServerInterceptor):
    """The same over gRPC."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Change the request on its way in."""
        method = await continuation(handler_call_details)
        is_message = handler_call_details.method.endswith(("/SendMessage", "/SendStreamingMessage"))

        def changed(data: bytes) -> Any:
            request = method.request_deserializer(data)
            if is_message and request.message.message_id:
                request.message.message_id = _unique(request.message.message_id)
            return request

        if method.response_streaming:

            async def stream(request: Any, context: Any) -> AsyncGenerator[Any]:
                async for response in method.unary_stream(request, self._signed(context)):
                    yield response

            return grpc.unary_stream_rpc_method_handler(stream, changed, method.response_serializer)

        async def unary(request: Any, context: Any) -> Any:
            return await method.unary_unary(request, self._signed(context))

        return grpc.unary_unary_rpc_method_handler(unary, changed, method.response_serializer)

    def _signed(self, context: Any) -> Any:
        return _SignedIn(context, self._token)


class _SignedIn:
    """The context of a call that came with a token."""

    def __init__(self, context: Any, token: str) -> None:
        self._context = context
        self._token = token

    def invocation_metadata(self) -> tuple[Any, ...]:
        return (*(self._context.invocation_metadata() or ()), ("x-api-key", self._token))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


async def main(url: str, port: int, grpc_port: int) -> None:
    """Serve until the process is killed."""
    with TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens.json"
        token = add_token(tokens, "suite")
        options = GatewayOptions(
            address=Address("127.0.0.1", port),
            grpc=Address("127.0.0.1", grpc_port),
            tokens=tokens,
            team=(AgentName("tck"),),
            old_clients=False,
            push_key=Path(folder) / "key",
            push_allow=("127.0.0.0/8", "::1/128"),
        )
        await _serve(url, options, token)


async def _serve(url: str, options: GatewayOptions, token: str) -> None:
    async with running(
        BusSettings(url=url),
        options,
        layer=lambda app: UniqueIds(app, token),
        interceptors=[UniqueIdsOverGrpc(token)],
    ) as served:
        print(served.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int((*sys.argv, "0")[3])))
