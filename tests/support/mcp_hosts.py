"""MCP hosts over HTTP: the SDK's client against a gateway in this process, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from threadbus.bus import BusSettings, connect
from threadbus.gateways.mcp.gateway import Gateway, GatewayOptions, open_gateway
from threadbus.gateways.mcp.http import HttpOptions, make_app
from threadbus.gateways.principals import Principals, add_token
from threadbus.gateways.web.serving import Address, serving

Era: TypeAlias = Literal["auto", "legacy"]
ERAS: tuple[Era, ...] = ("auto", "legacy")
DEADLINE_S = 30.0


class FailedError(AssertionError):
    """A tool gave an error that the test did not expect."""


@dataclass
class Host:
    """A connected host."""

    client: Client
    changes: asyncio.Queue[object]
    """Notifications beside its requests, in the older era."""

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that has to work; return its structured result."""
        result = await self.result(tool, arguments)
        if result.is_error:
            raise FailedError(text_of(result))
        return cast("dict[str, Any]", result.structured_content)

    async def error(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that has to fail; return the error that its model sees."""
        result = await self.result(tool, arguments)
        assert result.is_error, result.structured_content
        return text_of(result)

    async def result(
        self, tool: str, arguments: dict[str, Any], **more: Any
    ) -> types.CallToolResult:
        """Call a tool."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.client.call_tool(tool, arguments, **more)

    async def change(self, kind: type[Any]) -> Any:
        """Wait for a notification of the older era."""
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(found := await self.changes.get(), kind):
                continue
            return found


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    return "\n".join(b.text for b in result.content if isinstance(b, types.TextContent))


@dataclass
class Running:
    """A gateway that is being served."""

    gateway: Gateway
    url: str
    bus_url: str
    folder: Path

    def token(self, agent: str) -> str:
        """Make a token for an agent."""
        return add_token(self.folder / "tokens.json", agent)

    @asynccontextmanager
    async def host(
        self,
        agent: str,
        era: Era = "auto",
        *,
        answers: Callable[[str], Awaitable[str | None]] | None = None,
        token: str = "",
    ) -> AsyncGenerator[Host]:
        """Connect a host; *answers* plays the person behind it."""
        changes: asyncio.Queue[object] = asyncio.Queue()

        async def on_message(message: object) -> None:
            changes.put_nowait(message)

        async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert answers is not None
            said = await answers(params.message)
            if said is None:
                return types.ElicitResult(action="decline")
            return types.ElicitResult(action="accept", content={"answer": said})

        headers = {"Authorization": f"Bearer {token or self.token(agent)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            client = Client(
                streamable_http_client(self.url, http_client=http),
                mode=era,
                message_handler=on_message,
                elicitation_callback=None if answers is None else elicit,
            )
            async with client:
                yield Host(client, changes)


@asynccontextmanager
async def serving_gateway(
    bus_url: str,
    folder: Path,
    options: GatewayOptions | None = None,
    settings: BusSettings | None = None,
) -> AsyncGenerator[Running]:
    """Serve a gateway on a free port, with tokens for whoever asks for one."""
    tokens = folder / "tokens.json"
    if not tokens.exists():
        add_token(tokens, "nobody")
    chosen = settings or BusSettings(url=bus_url)
    async with (
        connect(chosen, name="mcp-gateway") as bus,
        open_gateway(bus, options or GatewayOptions()) as gateway,
        serving(
            make_app(gateway, HttpOptions(principals=Principals(tokens))),
            Address("127.0.0.1", 0),
            on_stop=gateway.stop,
        ) as served,
    ):
        yield Running(gateway, f"{served.url}/mcp", bus_url, folder)
