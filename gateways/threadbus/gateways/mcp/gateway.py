"""The gateway: one connection to the bus, the desks of its agents, and the server for hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from starlette.requests import Request

from threadbus.bus import Bus
from threadbus.gateways.mcp.calling import Caller, Context, is_modern
from threadbus.gateways.mcp.calls import Call
from threadbus.gateways.mcp.desk import LINGER_S, Desk, Desks
from threadbus.gateways.mcp.directory import ASK_PREFIX, Directory
from threadbus.gateways.mcp.failures import explain
from threadbus.gateways.mcp.plainly import speaking_plainly
from threadbus.gateways.mcp.prompts import INSTRUCTIONS, PROMPTS, render
from threadbus.gateways.mcp.references import parse_uri
from threadbus.gateways.mcp.resources import (
    check_readable,
    list_resources,
    list_templates,
    read_resource,
)
from threadbus.gateways.mcp.subscriptions import Hub
from threadbus.gateways.mcp.toolbox import ALIASES, TOOLS, ask_tool
from threadbus.gateways.mcp.wire import failure_of, tool_of
from threadbus.gateways.names import tool_name
from threadbus.schemas import AgentCard, AgentName, ThreadbusError

NAME: Final = "threadbus"
_SESSION_HEADER: Final = "mcp-session-id"
_STDIO: Final = "stdio"


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """How a gateway is."""

    agent: AgentName | None = None
    """Who everybody is that has no token: over stdio, and on a machine of one's own."""
    description: str = ""
    """What that agent can do, for others who look for one."""
    coral: bool = False
    """Show the tools under the names of the newer Coral server, too."""
    state_keys: tuple[bytes, ...] = ()
    """What the state of a question to a person is sealed with; processes behind one address
    share it. A key of this process alone when empty."""
    linger_s: float = LINGER_S
    """Seconds after its last request for which a host counts as being there."""


class _Server(Server[Any]):
    """Announces changes of its lists; the SDK leaves that to whoever starts a session."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(
            notification_options or changes, experimental_capabilities, extensions
        )


class Gateway:
    """One gateway process; made by :func:`open_gateway`."""

    def __init__(self, bus: Bus, options: GatewayOptions, tasks: asyncio.TaskGroup) -> None:
        self._options = options
        self._stopping = asyncio.Event()
        self.directory = Directory(bus)
        self.hub = Hub(bus, tasks)
        self.desks = Desks(bus, tasks, self._card_of, self.hub.resources_changed, options.linger_s)
        self.caller = Caller(self.directory, tasks, self._stopping)
        self.server = self._make_server()

    def stop(self) -> None:
        """End what waits, and the streams of changes: the server is about to stop."""
        self._stopping.set()
        self.hub.close()

    def who(self) -> AgentName:
        """Return the agent of the request that is being served.

        Raises:
            MCPError: it has no token, and no agent stands for those who have none.
        """
        token = get_access_token()
        if token is not None:
            return AgentName(token.client_id)
        if self._options.agent is not None:
            return self._options.agent
        raise MCPError(INVALID_PARAMS, "no agent: a bearer token says who you are")

    def _make_server(self) -> Server[Any]:
        server = _Server(
            NAME,
            version=version("threadbus"),
            title="threadbus: a bus of agents",
            instructions=INSTRUCTIONS,
            # Otherwise the SDK lists all tools at each call, to look for headers that none has.
            get_tool_input_schema=_no_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        keys = list(self._options.state_keys)
        security = RequestStateSecurity(keys=keys) if keys else RequestStateSecurity.ephemeral()
        server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
        return server

    def _card_of(self, agent: AgentName) -> AgentCard:
        is_ours = agent == self._options.agent
        return AgentCard(
            name=agent,
            description=self._options.description if is_ours else "",
            labels={"via": "mcp"},
        )

    async def desk(self) -> Desk:
        """Return the desk of whoever makes the request that is being served.

        Raises:
            MCPError: nobody is known to make it.
            BusError: the agent cannot be registered.
        """
        return await self.desks.at(self.who())

    async def _desk(self, ctx: Context) -> Desk:
        desk = await self.desk()
        if not is_modern(ctx):
            self.hub.remember(desk, ctx.session, _session_id(ctx))
        return desk

    # tools

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        with speaking_plainly(self.who()):
            desk = await self._desk(ctx)
            with desk.busy():
                agents = await self.directory.askable(desk.name)
        tools = [*TOOLS.values(), *(ALIASES.values() if self._options.coral else ())]
        tools += [ask_tool(tool_name(ASK_PREFIX, agent.name), agent) for agent in agents]
        return types.ListToolsResult(tools=[tool_of(tool) for tool in tools])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            desk = await self._desk(ctx)
        except ThreadbusError as error:
            return failure_of(explain(error, self.who()))
        return await self.caller.call(ctx, desk, params)

    # resources

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with speaking_plainly(self.who()):
            desk = await self._desk(ctx)
            with desk.busy():
                return types.ListResourcesResult(resources=await list_resources(self._look(desk)))

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list_templates())

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with speaking_plainly(self.who(), params.uri):
            desk = await self._desk(ctx)
            with desk.busy():
                return await read_resource(self._look(desk), params.uri)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> Any:
        with speaking_plainly(self.who(), params.uri):
            desk = await self._desk(ctx)
            await check_readable(self._look(desk), parse_uri(params.uri))
            self.hub.subscribe(desk, _session_id(ctx), params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> Any:
        desk = await self._desk(ctx)
        self.hub.unsubscribe(desk, _session_id(ctx), params.uri)
        return types.EmptyResult()

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        with speaking_plainly(self.who()):
            desk = await self._desk(ctx)
            for uri in params.notifications.resource_subscriptions or ():
                await check_readable(self._look(desk), parse_uri(uri))
            with desk.busy():
                return await self.hub.listen(desk, ctx, params)

    # prompts

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(
                            name=argument.name,
                            description=argument.description,
                            required=argument.required,
                        )
                        for argument in prompt.arguments
                    ],
                )
                for prompt in PROMPTS.values()
            ]
        )

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(
                INVALID_PARAMS, f"no prompt of this name; there are {', '.join(PROMPTS)}"
            )
        with speaking_plainly(self.who()):
            text = render(prompt, params.arguments or {})
        message = types.PromptMessage(
            role="user", content=types.TextContent(type="text", text=text)
        )
        return types.GetPromptResult(description=prompt.description, messages=[message])

    def _look(self, desk: Desk) -> Call:
        return Call(desk, self.directory, _tell_nobody)


@asynccontextmanager
async def open_gateway(
    bus: Bus, options: GatewayOptions, kind: type[Gateway] = Gateway
) -> AsyncGenerator[Gateway]:
    """Run a gateway for as long as the context lasts; its agents have left when it ends.

    Args:
        bus: the connection; each agent speaks over it under its own name.
        options: how the gateway is.
        kind: what it is made of; a subclass may serve more.
    """
    async with asyncio.TaskGroup() as tasks:
        gateway = kind(bus, options, tasks)
        watching = tasks.create_task(
            gateway.directory.watch(gateway.hub.tools_changed, gateway.hub.agents_changed),
            name="threadbus.mcp.directory",
        )
        try:
            yield gateway
        finally:
            gateway.stop()
            watching.cancel()
            gateway.desks.leave()


def _session_id(ctx: Context) -> str:
    request = ctx.request
    return request.headers.get(_SESSION_HEADER, _STDIO) if isinstance(request, Request) else _STDIO


def _no_schema(_: str) -> None:
    """Say that no tool has arguments in headers."""


async def _tell_nobody(note: str, fraction: float | None) -> None:
    """Tell no progress: what is read takes no time."""
