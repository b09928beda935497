"""What an idle agent costs: processor time and memory of a process that waits for mentions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.figures import AIM, Figure, Target, say
from benchmarks.options import Options, main
from benchmarks.processes import running
from benchmarks.server import private_server

_SECONDS: Final = 6.0
_LEAST_PERCENT: Final = 0.001
_SETTLE_S: Final = 1.0
_MOST_PERCENT: Final = 1.0
_MOST_MB: Final = 60.0
_WHAT: Final = "idle agent"


async def measure(options: Options) -> Sequence[Figure]:
    """Return the share of a core and the resident memory. Linux only: it reads /proc."""
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    async with (
        private_server() as url,
        running("agent", url) as bus,
        running("pulling", url) as plain,
    ):
        await asyncio.sleep(_SETTLE_S)
        for turn in range(options.rounds):
            say(f"idle, round {turn + 1} of {options.rounds}")
            before = _cpu_ns(bus), _cpu_ns(plain)
            seconds = max(1.0, _SECONDS * options.scale)
            await asyncio.sleep(seconds)
            # Both at once: waiting beside one another they do not get in each other's way.
            ours.append((_percent(_cpu_ns(bus) - before[0], seconds), _resident_mb(bus)))
            theirs.append((_percent(_cpu_ns(plain) - before[1], seconds), _resident_mb(plain)))
    percent, memory = [share for share, _ in ours], [mb for _, mb in ours]
    shares, sizes = [share for share, _ in theirs], [mb for _, mb in theirs]
    return [
        Figure(
            f"{_WHAT}, processor",
            AIM,
            "%",
            percent,
            [_MOST_PERCENT] * options.rounds,
            Target(1.0),
        ),
        Figure(f"{_WHAT}, memory", AIM, "MB", memory, [_MOST_MB] * options.rounds, Target(1.0)),
        Figure(f"{_WHAT}, processor", "nats-py at a pull consumer", "%", percent, shares),
        Figure(f"{_WHAT}, memory", "nats-py at a pull consumer", "MB", memory, sizes),
    ]


def _percent(used_ns: int, seconds: float) -> float:
    """Return the share of a core; never 0, which a process that slept all the time would have."""
    return max(_LEAST_PERCENT, used_ns / seconds / 1e7)


def _cpu_ns(pid: int) -> int:
    """Return the nanoseconds that every thread of a process has run."""
    return sum(
        int((thread / "schedstat").read_text().split()[0])
        for thread in Path(f"/proc/{pid}/task").iterdir()
    )


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError(f"no memory figure for process {pid}")


if __name__ == "__main__":
    main(__doc__, [measure])
