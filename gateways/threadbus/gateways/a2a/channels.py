"""gRPC towards a remote agent.

It needs the extra ``grpc``, and is imported only where a card offers nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from threadbus.gateways.a2a.transport import MAX_ANSWER_BYTES

_SCHEMES: Final = {"http": False, "grpc": False, "https": True, "grpcs": True}
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
)


class _Named:
    """Sends along what says who calls."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = [(name.lower(), value) for name, value in headers.items()]

    def with_headers(self, details: Any) -> Any:
        return details._replace(metadata=[*(details.metadata or ()), *self._headers])


# The library takes an interceptor of two kinds for the first of them only.
class _NamedCall(_Named, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(self.with_headers(client_call_details), request)


class _NamedStream(_Named, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(self.with_headers(client_call_details), request)


def open_channel(address: str, headers: Mapping[str, str], *, is_secure: bool) -> grpc.aio.Channel:
    """Return a channel; nothing is connected before the first call.

    Args:
        address: what the card says, as ``HOST:PORT`` or with a scheme.
        headers: sent along with each call.
        is_secure: whether it is TLS where the address has no scheme.
    """
    scheme, found, rest = address.partition("://")
    target = (rest if found else address).rstrip("/")
    interceptors: list[grpc.aio.ClientInterceptor] = []
    if headers:
        interceptors += [_NamedCall(headers), _NamedStream(headers)]
    if _SCHEMES.get(scheme.lower(), is_secure) if found else is_secure:
        return grpc.aio.secure_channel(
            target, grpc.ssl_channel_credentials(), options=_OPTIONS, interceptors=interceptors
        )
    return grpc.aio.insecure_channel(target, options=_OPTIONS, interceptors=interceptors)
