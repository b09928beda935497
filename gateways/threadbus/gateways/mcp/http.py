"""The gateway over HTTP: tokens, checks and bounds around the SDK's transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from threadbus.gateways.mcp.gateway import Gateway
from threadbus.gateways.principals import Principals
from threadbus.gateways.web.limits import BodyLimit, HostCheck
from threadbus.schemas import ThreadbusError

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 1_000
"""Sessions of the older protocol in one process."""

SESSION_IDLE_S: Final = 1_800.0


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """How the gateway is over HTTP."""

    principals: Principals | None = None
    """Who has a token; nobody needs one when absent."""
    hosts: Collection[str] = ()
    """Names beside those of the loopback that ``Host`` may have."""
    origins: Collection[str] = ()
    """Origins beside the loopback from which a browser may come."""
    issuer: str = ""
    """Where a host may get a token by itself (OAuth), for those that can."""
    public_url: str = ""
    """How hosts reach the gateway, where that is known."""


class _Verifier:
    """The resource server's part of OAuth: says whose a token is."""

    def __init__(self, principals: Principals) -> None:
        self._principals = principals

    async def verify_token(self, token: str) -> AccessToken | None:
        principal = self._principals.find(token)
        if principal is None:
            return None
        return AccessToken(
            token=token, client_id=principal.agent, subject=principal.name, scopes=[]
        )


class _Present:
    """Makes an agent of every host, and counts its requests: it is there while one of them is."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            desk = await self._gateway.desk()
        except (ThreadbusError, TimeoutError, MCPError):
            # The handlers of the protocol meet it too, and have words for it.
            await self._app(scope, receive, send)
            return
        with desk.busy(counted=False):
            await self._app(scope, receive, send)


def make_app(gateway: Gateway, options: HttpOptions) -> ASGIApp:
    """Return the ASGI application of a gateway: ``/mcp``, and ``/healthz`` for whoever watches it.

    Args:
        gateway: what is served.
        options: who may use it, and from where.
    """
    manager = StreamableHTTPSessionManager(
        gateway.server,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY_BYTES,
    )
    endpoint: Any = _Present(StreamableHTTPASGIApp(manager), gateway)
    layers: list[Middleware] = []
    routes: list[BaseRoute] = [Route("/healthz", _healthy(gateway))]
    if options.principals is not None:
        metadata = None
        if options.issuer and options.public_url:
            resource = AnyHttpUrl(options.public_url.rstrip("/") + PATH)
            metadata = build_resource_metadata_url(resource)
            routes += create_protected_resource_routes(resource, [AnyHttpUrl(options.issuer)])
        endpoint = RequireAuthMiddleware(endpoint, [], metadata)
        layers = [
            Middleware(
                AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(options.principals))
            ),
            Middleware(AuthContextMiddleware),
        ]
    routes.append(Route(PATH, endpoint))
    app: ASGIApp = Starlette(routes=routes, middleware=layers, lifespan=lambda _: manager.run())
    return HostCheck(BodyLimit(app, MAX_BODY_BYTES), options.hosts, options.origins)


def _healthy(gateway: Gateway) -> Callable[[Request], Awaitable[Response]]:
    async def healthz(_: Request) -> Response:
        try:
            await gateway.directory.agents()
        except Exception:
            # Whatever it is: this process cannot serve hosts at the moment.
            return JSONResponse({"status": "no bus"}, status_code=503)
        return JSONResponse({"status": "ok"})

    return healthz
