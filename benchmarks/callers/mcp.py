"""Ask for a model as an MCP host, and answer what the team asks."""

from collections.abc import Callable
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def model(url: str, request: str, reply: Callable[[str], str]) -> str:
    """Return the answer."""

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"answer": reply(params.message)})

    async with (
        httpx2.AsyncClient(timeout=120) as http,
        Client(
            streamable_http_client(url, http_client=http), elicitation_callback=elicit
        ) as client,
    ):
        arguments: dict[str, Any] = {"agent": "collaboration", "question": request}
        while True:
            result = await client.call_tool("ask", arguments)
            found = result.structured_content
            if result.is_error or found is None:
                raise RuntimeError(str(result.content))
            if found["status"] != "working":
                return str(found["text"])
            arguments = {"task_id": found["task_id"]}
