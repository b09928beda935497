"""A disk without room under the server."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tests.chaos.needs import MissingError
from tests.chaos.stage import Stage
from tests.chaos.verdict import Verdict
from threadbus.bus.server import EmbeddedServer

_DISK_MIB: Final = 64
_CHUNK: Final = bytes(64 * 1024)


async def disk_full(stage: Stage) -> Verdict:
    """A file system in memory fills up under the server, to the last byte, and is emptied.

    A server that has met a full disk may switch JetStream off; so it is started again, as its
    operator would.
    """
    async with _small_disk(stage.folder / "disk") as disk:
        ballast = disk / "ballast"
        async with EmbeddedServer(disk / "nats") as server, stage.team(server.url):
            async with stage.writing(server.url):
                while await stage.rest(1.0, 3.0):
                    await asyncio.to_thread(_fill, ballast)
                    stage.count("disk filled")
                    await stage.rest(1.0, 4.0)
                    ballast.unlink()
                    await stage.rest(0.1, 1.0)
                    if stage.chance.random() < 0.5:
                        await server.kill()
                        stage.count("server killed")
                    else:
                        await server.stop()
                        stage.count("server stopped")
                    await server.start()
            return await stage.settle(server.url)


def _fill(path: Path) -> None:
    """Write until there is no room for another byte."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(_CHUNK)
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0")


@asynccontextmanager
async def _small_disk(path: Path) -> AsyncGenerator[Path]:
    """Mount a file system in memory; nothing of it outlives the context."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise MissingError("file system of its own for a server (root may mount one)")
    await asyncio.to_thread(path.mkdir)
    if code := await _run("mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "chaos", str(path)):
        raise MissingError(f"tmpfs that can be mounted (mount ended with {code})")
    try:
        yield path
    finally:
        await _run("umount", "--lazy", str(path))


async def _run(*words: str) -> int:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait()
