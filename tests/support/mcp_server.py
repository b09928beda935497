"""A foreign MCP server for tests: tools that work, fail, report, hang and die."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tester", title="Tester", instructions="Tools for tests.")


@server.tool(title="Echo")
def echo(text: str) -> str:
    """Say it again."""
    return f"echo: {text}"


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@server.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool()
async def steps(count: int, ctx: Context[Any]) -> str:
    """Report each step."""
    for number in range(count):
        await ctx.report_progress(number + 1, count, f"step {number + 1}")
    return "done"


@server.tool()
async def hang(path: str) -> str:
    """Say by a file that it has begun, and never end."""
    begun = Path(path)
    await asyncio.to_thread(begun.touch)
    await asyncio.Event().wait()
    return ""


@server.tool()
def die() -> str:
    """End the process at once."""
    os._exit(3)


@server.tool()
def big(size: int) -> str:
    """Give a large text."""
    return "x" * size


@server.tool()
def picture() -> Image:
    """Give a picture."""
    return Image(data=b"\x89PNG", format="png")


if __name__ == "__main__":
    server.run()
