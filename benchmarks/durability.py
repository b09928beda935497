"""What ``sync_interval`` costs, and what a crash of the operating system may lose.

Appends under ``sync_interval: always`` against the server's default, as a ratio. And, for root on
Linux with mkfs.ext4, what is left of acknowledged events when the machine stops dead: the server
writes to a disk in a file, which is copied as it stands, mounted again, and read by another server.
A process that is killed loses nothing either way.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.figures import Figure, Report, load, say, show
from benchmarks.options import Options
from threadbus.bus import Bus, connect
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.schemas import MAIN_THREAD, AgentCard, TaskId

Interval: TypeAlias = "timedelta | Literal['always'] | None"

_TEXT: Final = "The ledger says 41,200 and the report says 42,100. " * 8
_DEPTHS: Final = ((1, 200), (64, 2_000))
_INTERVALS: Final[tuple[tuple[str, Interval], ...]] = (
    ("default", None),
    ("1s", timedelta(seconds=1)),
    ("always", "always"),
)
_IMAGE_BYTES: Final = 512 * 1024 * 1024
_CRASH_EVENTS: Final = 5_000
_PIECE: Final = 64


async def measure(options: Options) -> Sequence[Figure]:
    """Return the throughput under each interval against the default."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        buses = {
            name: await stack.enter_async_context(_writing(interval))
            for name, interval in _INTERVALS
        }
        for depth, usual in _DEPTHS:
            say(f"durability, depth {depth}")
            count = options.count(usual)
            rates: dict[str, list[float]] = {name: [] for name in buses}
            for turn in range(options.rounds):
                for name in buses if turn % 2 == 0 else reversed(list(buses)):
                    bus, task = buses[name]
                    started = time.perf_counter()
                    await _append(bus, task, count, depth)
                    rates[name].append(count / (time.perf_counter() - started))
            figures += [
                Figure(
                    f"append with sync_interval {name}, {depth} at a time",
                    "append with the server's default",
                    "/s",
                    rates[name],
                    rates["default"],
                )
                for name in buses
                if name != "default"
            ]
    return figures


@asynccontextmanager
async def _writing(
    interval: Interval, data: Path | None = None
) -> AsyncGenerator[tuple[Bus, TaskId]]:
    settings = ServerSettings(sync_interval=interval)
    async with (
        EmbeddedServer(data, settings=settings) as server,
        connect(server.url, name="user") as bus,
    ):
        await bus.registry.register(AgentCard(name="web"), holder="benchmark", takeover=True)
        yield bus, (await bus.tasks.open("Task", to=[], participants=["web"])).event.task


async def _append(bus: Bus, task: TaskId, count: int, depth: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for _ in numbers:
            await bus.send(task, MAIN_THREAD, _TEXT)

    async with asyncio.TaskGroup() as group:
        for _ in range(depth):
            group.create_task(worker())


async def crash(interval: Interval) -> tuple[int, int]:
    """Stop a machine dead, in effect, after the last acknowledgement.

    Returns:
        How many events were acknowledged, and how many of them are there afterwards.

    Raises:
        OSError: not root, or no ext4.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadbus-crash-"))
    try:
        image, copy, mount = folder / "disk", folder / "after", folder / "mount"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        await _run("mkfs.ext4", "-q", "-F", str(image))
        async with (
            _mounted(image, mount),
            _writing(interval, mount / "data") as (bus, task),
        ):
            await _append(bus, task, _CRASH_EVENTS, _PIECE)
            # What the disk has now is what it has after a power cut.
            await asyncio.to_thread(shutil.copyfile, image, copy)
        async with (
            _mounted(copy, mount),
            EmbeddedServer(mount / "data") as server,
            connect(server.url, name="user") as bus,
        ):
            streams = {stream.name: stream for stream in (await bus.storage()).streams}
            # One more opened the super-task.
            return _CRASH_EVENTS + 1, streams["BUS"].messages
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _mounted(image: Path, mount: Path) -> AsyncGenerator[None]:
    await _run("mount", "-o", "loop", str(image), str(mount))
    try:
        yield
    finally:
        # Whatever guards the server may still be on its way out.
        await _run("umount", "--lazy", str(mount))


async def _run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    if await process.wait() != 0:
        raise OSError(f"{words[0]} ended with {process.returncode}")


async def _crashes() -> None:
    print("\nacknowledged, and there after the machine stopped dead:")
    for name, interval in _INTERVALS:
        acknowledged, kept = await crash(interval)
        print(f"  sync_interval {name:<8} {acknowledged:>7,} {kept:>7,}")


def _main() -> None:
    parser = argparse.ArgumentParser(description="What sync_interval costs, and what it saves.")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every count")
    parser.add_argument("--no-crash", action="store_true", help="only the ratio")
    given = parser.parse_args()
    before = load()
    figures = asyncio.run(measure(Options(given.rounds, given.scale)))
    show(Report(list(figures), before, load()))
    if given.no_crash:
        return
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        sys.exit("for what a crash loses: run it as root on Linux, with mkfs.ext4")
    asyncio.run(_crashes())


if __name__ == "__main__":
    _main()
