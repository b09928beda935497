"""Disks under the server: one without room, one that is slow, one that fails."""

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
from tests.chaos.tracing import injected
from tests.chaos.verdict import Verdict
from threadbus.bus.server import EmbeddedServer, ServerSettings

_SYNC_MS: Final = (5, 20, 80, 300, 1500)
_WRITE_MS: Final = (0, 0, 2, 20, 100)
_WRITES_FAIL: Final[tuple[str, ...]] = ("pwrite64:error=EIO",)
_FAILURES: Final = (
    ("pwrite64:error=ENOSPC",),
    ("pwrite64:error=EIO:when=2+3",),
    ("fsync:error=EIO",),
    ("fsync:error=EIO:when=2+3", "pwrite64:error=EIO:when=5+5"),
    ("openat:error=EIO", "renameat:error=EIO", "unlinkat:error=EIO", "pwrite64:error=EIO:when=3+"),
)
"""`when` counts the calls of each thread."""

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
                    await _end(stage, server)
                    await server.start()
            return await stage.settle(server.url)


async def disk_slow(stage: Stage) -> Verdict:
    """Each sync of the server's disk takes milliseconds to seconds, and so do some writes.

    The server syncs before each acknowledgement. In some spells it is killed.
    """
    settings = ServerSettings(sync_interval="always")
    output = stage.folder / "calls.txt"
    async with EmbeddedServer(settings=settings) as server, stage.team(server.url):
        async with stage.writing(server.url):
            while await stage.rest(0.1, 0.7):
                rules = [f"fsync:delay_exit={stage.chance.choice(_SYNC_MS) * 1000}"]
                if write := stage.chance.choice(_WRITE_MS):
                    rules.append(f"pwrite64:delay_exit={write * 1000}")
                async with injected(server.pid, output, rules) as spell:
                    stage.count("slow spell")
                    await stage.rest(0.5, 4.0)
                    if stage.chance.random() < 0.2:
                        await server.kill()
                        stage.count("server killed")
                stage.count("call delayed", spell.touched())
                if not server.is_running:
                    await server.start()
        return await stage.settle(server.url)


async def disk_fails(stage: Stage) -> Verdict:
    """The server's disk answers EIO or ENOSPC for a while, to all or some of its calls.

    A server that has met such a disk keeps its stream shut; so it is started again, as its
    operator would. Half of the time it is stopped or killed while the disk still fails.
    """
    # Without it no call would sync within the time of a scenario.
    settings = ServerSettings(sync_interval="always")
    output = stage.folder / "calls.txt"
    async with EmbeddedServer(settings=settings) as server, stage.team(server.url):
        async with stage.writing(server.url):
            while await stage.rest(1.0, 2.5):
                rules = _WRITES_FAIL
                if "disk failed" in stage.counts:
                    rules = stage.chance.choice([_WRITES_FAIL, *_FAILURES])
                is_after = stage.chance.random() < 0.5
                async with injected(server.pid, output, rules) as spell:
                    stage.count("disk failed")
                    await stage.rest(0.3, 3.0)
                    if not is_after:
                        await _end(stage, server)
                stage.count("call refused", spell.touched())
                if is_after:
                    await stage.rest(0.1, 1.0)
                    await _end(stage, server)
                await server.start()
        return await stage.settle(server.url)


async def _end(stage: Stage, server: EmbeddedServer) -> None:
    if stage.chance.random() < 0.5:
        await server.kill()
        stage.count("server killed")
    else:
        await server.stop()
        stage.count("server stopped")


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
