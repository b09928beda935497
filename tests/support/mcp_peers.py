"""MCP peers that npm installs: Node 22, conformance suites, Inspector, JavaScript client.

`.ci/mcp.sh` installs them, and names their folder by THREADBUS_MCP_PEERS.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.require import require

VARIABLE = "THREADBUS_MCP_PEERS"
ELSEWHERE = "elsewhere"
"""Value of the variable where another run of the same tests, on another Python, has them."""

DEADLINE_S = 100.0
_USUAL = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "threadbus/mcp-peers-1"


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    output: str


@dataclass(frozen=True)
class Peers:
    """Where they are."""

    folder: Path
    home: Path

    def module(self, package: str, *path: str) -> str:
        """Return the path of a file in an installed package."""
        return str(self.folder.joinpath(package, "node_modules", *path))

    async def node(self, *arguments: str, cwd: Path | None = None) -> Ended:
        """Run Node 22 to its end; it is killed at the deadline."""
        node = self.module("node", ".bin", "node")
        process = await asyncio.create_subprocess_exec(
            node,
            *arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            cwd=cwd or self.home,
            env={**os.environ, "HOME": str(self.home), "NO_COLOR": "1"},
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Ended(process.returncode or 0, output.decode(errors="replace"))


def peers(home: Path) -> Peers:
    """Return the peers; the test is skipped where they are not, and fails in CI.

    Args:
        home: a folder in which they may write.
    """
    named = os.environ.get(VARIABLE, "")
    if named == ELSEWHERE:
        pytest.skip("the MCP peers are tried with another Python in this run")
    folder = Path(named) if named else _USUAL
    require(
        "MCP peers (bash -c 'say() { echo $*; }; . .ci/mcp.sh; install_mcp_peers')",
        (folder / "client" / ".complete").is_file(),
    )
    return Peers(folder, home)
