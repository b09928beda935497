"""gRPC towards a remote agent.

It needs the extra ``grpc``, and is imported only where a card offers nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from threadbus.gateways.a2a.transport import MAX_ANSWER_BYTES
from threadbus.gateways.web.ssrf import Target

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


def open_channel(
    target: str, headers: Mapping[str, str], *, is_secure: bool, pinned: Target | None
) -> grpc.aio.Channel:
    """Return a channel; nothing is connected before the first call.

    Args:
        target: ``HOST:PORT``.
        headers: sent along with each call.
        is_secure: whether it is TLS.
        pinned: the IP that it has to go to; None where the name is looked up.
    """
    interceptors: list[grpc.aio.ClientInterceptor] = []
    if headers:
        interceptors += [_NamedCall(headers), _NamedStream(headers)]
    options: list[tuple[str, Any]] = [*_OPTIONS]
    if pinned is not None:
        # The authority, and the certificate, stay those of the name.
        options.append(("grpc.default_authority", target))
        options.append(("grpc.ssl_target_name_override", pinned.host))
        is_six = ":" in pinned.ip
        target = (
            f"ipv6:[{pinned.ip}]:{pinned.port}" if is_six else f"ipv4:{pinned.ip}:{pinned.port}"
        )
    if is_secure:
        return grpc.aio.secure_channel(
            target, grpc.ssl_channel_credentials(), options=options, interceptors=interceptors
        )
    return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
