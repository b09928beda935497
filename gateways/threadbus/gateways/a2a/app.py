"""The gateway as an ASGI application: cards, both bindings for each of them, and content."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from threadbus.bus import ArtifactError, Bus, LivingAgent
from threadbus.gateways.a2a.authentication import Authentication, caller_in
from threadbus.gateways.a2a.callers import CALLER, Agents, traceparent_in
from threadbus.gateways.a2a.cards import (
    JSON_RPC,
    REST,
    CardSettings,
    agent_card,
    agent_path,
    bus_card,
)
from threadbus.gateways.a2a.handler import Handler
from threadbus.gateways.a2a.log import TaskLog
from threadbus.gateways.a2a.wire import Wire
from threadbus.gateways.web.leaving import UntilGone
from threadbus.gateways.web.limits import BodyLimit, RateLimit
from threadbus.schemas import (
    ArtifactAdded,
    Recorded,
    ReferencePart,
    SchemaError,
    TaskId,
    parse_task_id,
)

FILES: Final = "/files"
# Weak or strong, as caches may have made of it.
_TAG: Final = re.compile(r'(?:W/)?"([^"]*)"')
_CACHE: Final = "public, max-age=60"

Sign = Callable[[pb.AgentCard], pb.AgentCard]


class Application:
    """Everything that is served, over one handler."""

    def __init__(
        self,
        bus: Bus,
        handler: Handler,
        agents: Agents,
        log: TaskLog,
        cards: CardSettings,
        *,
        started_at: float,
        sign: Sign | None = None,
    ) -> None:
        self._bus = bus
        self._handler = handler
        self._agents = agents
        self._log = log
        self._cards = cards
        self._started_at = started_at
        self._sign = sign
        self._versions: dict[str, tuple[str, int]] = {}
        """Of each card, by the agent's name: what it is, and since when."""

    def build(
        self,
        authentication: Callable[[ASGIApp], Authentication],
        *,
        max_body_bytes: int,
        per_second: float,
        burst: int,
    ) -> ASGIApp:
        """Return the application with its layers around it.

        Args:
            authentication: makes the layer that says who calls.
            max_body_bytes: the largest request.
            per_second: requests of one principal on average.
            burst: requests of one principal at once.
        """
        builder = _ContextBuilder()
        bindings: list[BaseRoute] = []
        for path in (f"/{JSON_RPC}", f"/{JSON_RPC}/"):
            bindings += create_jsonrpc_routes(
                self._handler, path, context_builder=builder, enable_v0_3_compat=True
            )
        rest = create_rest_routes(self._handler, context_builder=builder, enable_v0_3_compat=True)
        bindings.append(Mount(f"/{REST}", routes=rest))
        routes: list[BaseRoute] = [
            Route(AGENT_CARD_WELL_KNOWN_PATH, self._bus_card),
            Route("/agents", self._catalogue),
            Route(f"{FILES}/{{task}}/{{sha256}}", self._file),
            Mount(
                "/agents/{agent}",
                routes=[Route(AGENT_CARD_WELL_KNOWN_PATH, self._agent_card), *bindings],
            ),
            *bindings,
            *create_jsonrpc_routes(
                self._handler, "/", context_builder=builder, enable_v0_3_compat=True
            ),
        ]
        app: ASGIApp = Starlette(routes=routes)
        app = UntilGone(Wire(app))
        app = BodyLimit(app, max_body_bytes)
        app = RateLimit(app, per_second, burst, lambda scope: caller_in(scope).principal)
        return authentication(app)

    # cards

    async def _bus_card(self, request: Request) -> Response:
        living = await self._agents.living()
        changed = max((agent.record.registered_at for agent in living), default=0)
        return self._card(request, "", bus_card(living, self._cards), changed)

    async def _agent_card(self, request: Request) -> Response:
        agent = await self._agents.find(request.path_params["agent"])
        if agent is None:
            return JSONResponse({"error": "there is no such agent"}, 404)
        card = agent_card(agent, self._cards)
        return self._card(request, agent.name, card, agent.record.registered_at)

    def _card(self, request: Request, name: str, card: pb.AgentCard, registered: int) -> Response:
        body = json.dumps(agent_card_to_dict(card), sort_keys=True).encode()
        # Of the unsigned card: a signature may differ each time and says nothing more.
        tag = hashlib.sha256(body).hexdigest()
        changed = self._changed(name, tag, registered)
        headers = {
            "ETag": f'W/"{tag}"',
            "Last-Modified": formatdate(changed, usegmt=True),
            "Cache-Control": _CACHE,
        }
        if _is_known(request, tag, changed):
            return Response(status_code=304, headers=headers)
        if self._sign is not None:
            body = json.dumps(agent_card_to_dict(self._sign(card)), sort_keys=True).encode()
        return Response(body, headers=headers, media_type="application/json")

    def _changed(self, name: str, tag: str, registered: int) -> int:
        """Return since which second a card is as it is.

        No registration tells of an agent that went away, or of a gateway with other options.
        """
        known, since = self._versions.get(name, (tag, 0))
        if known != tag:
            # Twice in a second are two changes, too.
            since = max(int(time.time()), since + 1)
        since = since or int(max(registered / 1e9, self._started_at))
        self._versions[name] = (tag, since)
        return since

    async def _catalogue(self, request: Request) -> Response:
        """List every living agent and where its card is."""
        agents = sorted(await self._agents.living(), key=lambda agent: agent.name)
        return JSONResponse(
            {"agents": [self._entry(agent) for agent in agents]},
            headers={"Cache-Control": "no-cache"},
        )

    def _entry(self, agent: LivingAgent) -> dict[str, Any]:
        card = agent.record.card
        return {
            "name": card.name,
            "title": card.title,
            "description": card.description,
            "card": f"{self._cards.base}{agent_path(card.name)}{AGENT_CARD_WELL_KNOWN_PATH}",
        }

    # content

    async def _file(self, request: Request) -> Response:
        """Give content that a task of the caller's names."""
        caller = caller_in(request.scope)
        missing = JSONResponse({"error": "there is no such content"}, 404)
        try:
            task = parse_task_id(request.path_params["task"])
        except SchemaError:
            return missing
        view = await self._log.view(task)
        if view is None or not view.shows(caller.agent):
            return missing
        part = await self._find(task, request.path_params["sha256"])
        if part is None:
            return missing
        try:
            content = await self._bus.artifacts.get(part)
        except ArtifactError:
            return JSONResponse({"error": "the content is gone or damaged"}, 410)
        name = quote(part.name or "content", safe="")
        headers = {
            # A file of an agent's is never a page of this site.
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(content, headers=headers, media_type=_safe_type(part.media_type))

    async def _find(self, task: TaskId, sha256: str) -> ReferencePart | None:
        async for entry in self._bus.read(task):
            if not isinstance(entry, Recorded):
                continue
            data = entry.event.data
            parts = (data.part,) if isinstance(data, ArtifactAdded) else getattr(data, "parts", ())
            for part in parts:
                if isinstance(part, ReferencePart) and part.sha256 == sha256:
                    return part
        return None


def link(base: str, task: TaskId, part: ReferencePart) -> str:
    """Return the address under which those who see *task* can read *part*."""
    return f"{base}{FILES}/{task}/{part.sha256}"


def _is_known(request: Request, tag: str, changed: int) -> bool:
    """Whether a client has what it asks for; what it says of the tag counts before the time."""
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or tag in _TAG.findall(tags)
    since = request.headers.get("if-modified-since", "")
    try:
        return bool(since) and changed <= parsedate_to_datetime(since).timestamp()
    except (ValueError, OverflowError):
        return False


def _safe_type(media_type: str) -> str:
    is_plain = media_type.isascii() and media_type.isprintable() and "/" in media_type
    return media_type if is_plain else "application/octet-stream"


class _ContextBuilder(ServerCallContextBuilder):
    """Says who calls, and through which card."""

    def build(self, request: Request) -> ServerCallContext:
        """Build the context of one call."""
        caller = caller_in(request.scope)
        card = request.path_params.get("agent", "")
        trace = traceparent_in(request.headers)
        return ServerCallContext(
            state={
                CALLER: caller._replace(card=card, traceparent=trace),
                # The library looks for the protocol's version here.
                "headers": dict(request.headers),
            },
            requested_extensions=get_requested_extensions(
                request.headers.getlist(HTTP_EXTENSION_HEADER)
            ),
        )
