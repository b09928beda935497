"""The gateway over gRPC: the same handler behind the same checks.

One service serves every card: the ``tenant`` of a request says through which agent's card it came,
and is empty for the bus as a whole. Only version 1.0 is spoken. It needs the extra ``grpc``, so
nothing else imports this module unless gRPC is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler, GrpcServerCallContextBuilder
from a2a.types import a2a_pb2_grpc
from a2a.utils.constants import PROTOCOL_VERSION_1_0, VERSION_HEADER
from a2a.utils.errors import (
    A2A_ERROR_REASONS,
    A2AError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from a2a.utils.grpc_status import status_to_grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import (  # type: ignore[import-untyped, unused-ignore]  # no stubs
    error_details_pb2,  # pyright: ignore[reportMissingTypeStubs]
    status_pb2,  # pyright: ignore[reportMissingTypeStubs]
)

from threadbus.bus import SteadyLog
from threadbus.gateways.a2a.authentication import Finder, identify, token_of
from threadbus.gateways.a2a.callers import CALLER, Caller, traceparent_in
from threadbus.gateways.a2a.exact import unmark_values
from threadbus.gateways.errors import ListenError
from threadbus.gateways.web.limits import Rate
from threadbus.gateways.web.serving import Address
from threadbus.schemas import AgentName, clean_text

_ANSWER_ROOM: Final = 64 * 1024 * 1024
"""Bytes of the largest answer: a task with everything that was said and made in it."""
_IDLE_MS: Final = 15 * 60 * 1000
_KEEP_ALIVE_MS: Final = 75 * 1000
_METADATA_BYTES: Final = 16 * 1024
# The library answers these with FAILED_PRECONDITION; the protocol's table says this.
_UNIMPLEMENTED: Final = (
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
_log: Final = SteadyLog("threadbus.gateways.a2a")
_caller: ContextVar[Caller] = ContextVar("threadbus.a2a.caller")
"""Who makes the call that this task serves; set by the guard, read when its context is built."""


class Bound(NamedTuple):
    """A gRPC server that has its port, and takes calls once it is started."""

    address: Address
    """With the port that was taken."""
    server: grpc.aio.Server

    @property
    def target(self) -> str:
        """Where it is reached from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address.host, self.address.host)  # noqa: S104
        return str(Address(host, self.address.port))

    async def start(self, handler: RequestHandler) -> None:
        """Take calls for *handler*."""
        service = _Service(handler, _ContextBuilder())
        generated: Any = a2a_pb2_grpc
        generated.add_A2AServiceServicer_to_server(service, self.server)
        await self.server.start()


@asynccontextmanager
async def bound(
    address: Address,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    *,
    max_request_bytes: int,
    max_calls: int,
    stop_deadline: timedelta,
    on_stop: Callable[[], None],
) -> AsyncGenerator[Bound]:
    """Hold a port, and serve from :meth:`Bound.start` on for as long as the context lasts.

    Args:
        address: where to listen; without TLS, as for HTTP.
        interceptors: what is around every call, the outermost first.
        max_request_bytes: the largest request.
        max_calls: calls at once, streams among them; one more is refused.
        stop_deadline: how long running calls may take once the context is left.
        on_stop: called before the stop, to end the streams.

    Raises:
        ListenError: the address is taken, or not one of this machine.

    Cancellation: stops the server as leaving does.
    """
    server = grpc.aio.server(
        interceptors=interceptors,
        maximum_concurrent_rpcs=max_calls,
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            ("grpc.max_send_message_length", _ANSWER_ROOM),
            ("grpc.max_metadata_size", _METADATA_BYTES),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
            # A second gateway on the port is told so, and does not share it.
            ("grpc.so_reuseport", 0),
        ],
    )
    try:
        port = server.add_insecure_port(str(address))
    except RuntimeError as error:
        raise ListenError(str(address), "it is taken, or not one of this machine") from error
    try:
        yield Bound(Address(address.host, port), server)
    finally:
        on_stop()
        await server.stop(stop_deadline.total_seconds())


class Guard(grpc.aio.ServerInterceptor):
    """What is checked of every call before the service sees it, and mended on its way out."""

    def __init__(self, principals: Finder | None, guest: AgentName, rate: Rate) -> None:
        """Prepare.

        Args:
            principals: whose tokens are taken; with None everybody is the guest.
            guest: under which name callers without tokens are on the bus.
            rate: how often one principal may call.
        """
        self._principals = principals
        self._guest = guest
        self._rate = rate

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Wrap the method that is called."""
        method = await continuation(handler_call_details)
        if method is None:
            return None
        if method.response_streaming:

            async def stream(request: Any, context: Any) -> AsyncGenerator[Any]:
                await self._enter(request, context)
                try:
                    async for response in method.unary_stream(request, context):
                        unmark_values(response)
                        yield response
                except Exception as error:
                    await _fail(error, context)

            return grpc.unary_stream_rpc_method_handler(
                stream, _reading(method.request_deserializer), method.response_serializer
            )

        async def unary(request: Any, context: Any) -> Any:
            await self._enter(request, context)
            try:
                response = await method.unary_unary(request, context)
                unmark_values(response)
            except Exception as error:
                await _fail(error, context)
            else:
                return response

        return grpc.unary_unary_rpc_method_handler(
            unary, _reading(method.request_deserializer), method.response_serializer
        )

    async def _enter(self, request: Any, context: Any) -> None:
        """Let a call in, or abort it."""
        headers = _headers(context)
        token = token_of(headers.get("authorization", ""), headers.get("x-api-key", ""))
        caller = identify(self._principals, self._guest, token, _address_of(context.peer()))
        if caller is None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "this needs a token, in the metadata: authorization: Bearer TOKEN, "
                "or x-api-key: TOKEN",
            )
            return
        if self._rate.take(caller.principal) > 0:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {self._rate}; try again later"
            )
            return
        version = headers.get(VERSION_HEADER.lower(), "")
        # Without one it is 1.0: no other version has this service.
        if version and not _is_spoken(version):
            said = f"Version {clean_text(version, 20)} is not spoken, 1.0 is."
            await _abort(VersionNotSupportedError(said), context)
            return
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be read")
            return
        _caller.set(caller._replace(card=request.tenant))


class _Service(GrpcHandler):
    """The library's service, with the status codes that the protocol's table has."""

    async def abort_context(self, error: A2AError, context: Any) -> None:
        """End a call with an error of the protocol."""
        if isinstance(error, _UNIMPLEMENTED):
            await _abort(error, context)
            return
        library: Any = super()
        await library.abort_context(error, context)


class _ContextBuilder(GrpcServerCallContextBuilder):
    """Says who calls, and through which card."""

    def build(self, context: Any) -> ServerCallContext:
        """Build the context of one call."""
        headers = _headers(context)
        extensions = headers.get(HTTP_EXTENSION_HEADER.lower(), "")
        return ServerCallContext(
            state={
                CALLER: _caller.get()._replace(traceparent=traceparent_in(headers)),
                "headers": headers,
            },
            requested_extensions=get_requested_extensions([extensions] if extensions else []),
        )


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return what reads a request, and gives None for one that is none.

    The library would tell the peer what our code says of it, before anybody asked who that is.
    """

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return None

    return read


def _headers(context: Any) -> dict[str, str]:
    """Return the metadata of a call that is text, the first value of each."""
    found: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            found.setdefault(str(key).lower(), value)
    return found


def _is_spoken(version: str) -> bool:
    return version == PROTOCOL_VERSION_1_0 or version.startswith(f"{PROTOCOL_VERSION_1_0}.")


def _address_of(peer: str) -> str:
    """Return the address in ``ipv4:127.0.0.1:5000``, without the port."""
    return peer.partition(":")[2].rpartition(":")[0]


async def _abort(error: A2AError, context: Any) -> None:
    """End a call as unimplemented, with the details that the protocol wants."""
    detail = any_pb2.Any()
    detail.Pack(
        error_details_pb2.ErrorInfo(
            reason=A2A_ERROR_REASONS[type(error)], domain="a2a-protocol.org"
        )
    )
    status: Any = status_to_grpc(
        status_pb2.Status(
            code=grpc.StatusCode.UNIMPLEMENTED.value[0], message=error.message, details=[detail]
        )
    )
    context.set_trailing_metadata(tuple(status.trailing_metadata))
    await context.abort(status.code, status.details)


async def _fail(error: Exception, context: Any) -> None:
    """End a call whose error is none of the protocol's: the library would print it to the peer."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    _log.exception("a request failed", exc_info=error)
    await context.abort(
        grpc.StatusCode.INTERNAL, "Something went wrong here; the operator's log says what."
    )
