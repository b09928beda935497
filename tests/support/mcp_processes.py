"""Gateways as processes of their own, and hosts that connect to them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import msgspec
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import Cli, line_with, process
from tests.support.mcp_hosts import Era, Host
from threadbus.gateways.mcp.commands import Serving, Token


@asynccontextmanager
async def serving(cli: Cli, folder: Path, *more: str) -> AsyncGenerator[Serving]:
    """Run a gateway over HTTP as a process; it is killed at the end."""
    tokens = str(folder / "tokens.json")
    words = ["gateway", "mcp", "--http", "127.0.0.1:0", "--tokens", tokens, "--json", *more]
    async with process(*words, env=cli.env) as running:
        yield msgspec.json.decode(await line_with(running, '"url"'), type=Serving)


async def token(cli: Cli, folder: Path, agent: str) -> str:
    """Make a token by the command."""
    ran = await cli("gateway", "token", agent, "--tokens", str(folder / "tokens.json"), "--json")
    assert ran.code == 0, ran.err
    return ran.json(Token).token


@asynccontextmanager
async def host(url: str, secret: str, era: Era = "auto") -> AsyncGenerator[Host]:
    """Connect a host."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield Host(client, asyncio.Queue())


@asynccontextmanager
async def desk(cli: Cli, agent: str, era: Era) -> AsyncGenerator[Host]:
    """Connect a host over stdio, as one on a desk starts its server."""
    words = ["-W", "error", "-m", "threadbus.agents.cli", "gateway", "mcp", "--stdio"]
    command = StdioServerParameters(
        command=sys.executable, args=[*words, "--agent", agent], env=dict(cli.env)
    )
    async with Client(command, mode=era) as client:
        yield Host(client, asyncio.Queue())
