"""What hosts are told of when it changes: resources, and the lists of tools and resources.

Fed by the bus: a resource that somebody subscribed to is followed in the log for as long as they
are there. Everything told means "look again": what comes within a moment is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import (
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from threadbus.bus import Bus, BusError, SteadyLog
from threadbus.gateways.errors import TooManySubscriptionsError
from threadbus.gateways.mcp.desk import Desk
from threadbus.gateways.mcp.references import Target, parse_uri

MAX_SUBSCRIPTIONS: Final = 64
"""Resources that one agent may be subscribed to in one process."""

MAX_SESSIONS: Final = 32
"""Sessions of one agent, of the older protocol, that are told of changes."""

_QUIET_S: Final = 0.2
_TELL_S: Final = 5.0
_AGAIN_S: Final = 1.0
_HELD: Final = "subscriptions"
_SESSIONS: Final = "sessions"
_log: Final = SteadyLog("threadbus.gateways.mcp")

Context = ServerRequestContext[Any, Any]
Listener = Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[Any]]


class Hub:
    """The subscriptions of one gateway process."""

    def __init__(self, bus: Bus, tasks: asyncio.TaskGroup) -> None:
        self._bus = bus
        self._tasks = tasks
        self._events = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._events)
        self._followed: dict[str, tuple[int, asyncio.Task[None] | None]] = {}
        self._desks: dict[Desk, None] = {}

    @property
    def followed(self) -> int:
        """How many resources are followed now."""
        return len(self._followed)

    # the newer protocol: one request is a stream of changes

    async def listen(
        self, desk: Desk, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell a host of what it asks for until it goes."""
        uris = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        if len(uris) > MAX_SUBSCRIPTIONS:
            raise TooManySubscriptionsError(desk.name, MAX_SUBSCRIPTIONS)
        for uri in uris:
            self._hold(uri)
        try:
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self._release(uri)

    # the older one: a session subscribes, and is told on its own stream

    def remember(self, desk: Desk, session: ServerSession, session_id: str) -> None:
        """Note a session of the older protocol, for what it is told beside its requests."""
        sessions: dict[str, ServerSession] = desk.state.setdefault(_SESSIONS, {})
        sessions.pop(session_id, None)
        sessions[session_id] = session
        while len(sessions) > MAX_SESSIONS:
            del sessions[next(iter(sessions))]
        if desk not in self._desks:
            self._desks[desk] = None
            desk.at_end.callback(self._forget, desk)

    def subscribe(self, desk: Desk, session_id: str, uri: str) -> None:
        """Tell a session of changes to a resource, until it unsubscribes or its host goes.

        Raises:
            TooManySubscriptionsError: the agent has as many as it may.
        """
        held: set[tuple[str, str]] = desk.state.setdefault(_HELD, set())
        if (session_id, uri) in held:
            return
        if len(held) >= MAX_SUBSCRIPTIONS:
            raise TooManySubscriptionsError(desk.name, MAX_SUBSCRIPTIONS)
        held.add((session_id, uri))
        self._hold(uri)

    def unsubscribe(self, desk: Desk, session_id: str, uri: str) -> None:
        """Tell a session no more. Idempotent."""
        held: set[tuple[str, str]] = desk.state.get(_HELD, set())
        if (session_id, uri) in held:
            held.discard((session_id, uri))
            self._release(uri)

    def _forget(self, desk: Desk) -> None:
        self._desks.pop(desk, None)
        for _, uri in desk.state.pop(_HELD, set()):
            self._release(uri)

    # telling

    def tools_changed(self) -> None:
        """Tell everybody that the list of tools is another one."""
        self.publish(ToolsListChanged())

    def resources_changed(self) -> None:
        """Tell everybody that the list of resources is another one."""
        self.publish(ResourcesListChanged())

    def agents_changed(self) -> None:
        """Tell those who look at agents."""
        for uri in list(self._followed):
            with suppress(ValueError):
                if parse_uri(uri).kind in {"agents", "agent"}:
                    self.publish(ResourceUpdated(uri))

    def close(self) -> None:
        """End the streams of the newer protocol in order."""
        self._listen.close()

    def publish(self, event: ServerEvent) -> None:
        """Tell everybody who asked for changes of this kind."""
        self._tasks.create_task(self._told(event), name="threadbus.mcp.publish")

    async def _told(self, event: ServerEvent) -> None:
        await self._events.publish(event)
        await asyncio.gather(
            *(
                self._tell(desk, session_id, session, event)
                for desk in list(self._desks)
                for session_id, session in list(desk.state.get(_SESSIONS, {}).items())
            )
        )

    async def _tell(
        self, desk: Desk, session_id: str, session: ServerSession, event: ServerEvent
    ) -> None:
        try:
            async with asyncio.timeout(_TELL_S):
                match event:
                    case ToolsListChanged():
                        await session.send_tool_list_changed()
                    case ResourcesListChanged():
                        await session.send_resource_list_changed()
                    case ResourceUpdated(uri=uri):
                        if (session_id, uri) in desk.state.get(_HELD, set()):
                            await session.send_resource_updated(uri)
                    case _:
                        pass
        except Exception as error:
            # The session has ended; the SDK has no word for that.
            _log.debug("session not told", agent=desk.name, reason=repr(error))
            desk.state.get(_SESSIONS, {}).pop(session_id, None)

    # following

    def _hold(self, uri: str) -> None:
        count, follower = self._followed.get(uri, (0, None))
        if count == 0:
            try:
                target = parse_uri(uri)
            except ValueError:
                target = None
            if target is not None and target.task:
                follower = self._tasks.create_task(
                    self._follow(uri, target), name=f"threadbus.mcp.follow[{uri}]"
                )
        self._followed[uri] = (count + 1, follower)

    def _release(self, uri: str) -> None:
        count, follower = self._followed[uri]
        if count > 1:
            self._followed[uri] = (count - 1, follower)
            return
        del self._followed[uri]
        if follower is not None:
            follower.cancel()

    async def _follow(self, uri: str, target: Target) -> None:
        thread = target.thread if target.kind == "thread" else None
        after = -1
        while True:
            try:
                if after < 0:
                    after = (await self._bus.tasks.state(target.task)).last_seq
                async for entry in self._bus.follow(target.task, thread, after):
                    after = entry.seq
                    self.publish(ResourceUpdated(uri))
                    await asyncio.sleep(_QUIET_S)
            except (BusError, TimeoutError) as error:
                _log.debug("cannot follow a resource, trying on", uri=uri, reason=str(error))
            await asyncio.sleep(_AGAIN_S)
