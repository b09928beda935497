"""System calls of a server that are delayed or refused, by strace: what a bad disk is to a program.

Only calls that files alone get are touched, so that no socket is slower or broken. What the server
asks for is either done late (a disk that is slow) or not done and answered by an error (a disk that
fails). strace stops a thread at each system call, also at those that it leaves alone; what that
costs by itself is about as much again as a round trip, and is gone when it lets go.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tests.chaos.needs import MissingError
from tests.chaos.waiting import pass_time

_ATTACH_S: Final = 20.0
_END_S: Final = 10.0
_LOOK_S: Final = 0.01
_MARKS: Final = (b"(DELAYED)", b"(INJECTED)")


class Spell:
    """A while in which system calls go wrong."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def touched(self) -> int:
        """Return how many calls were delayed or refused; known when it is over."""
        lines = self._output.read_bytes().splitlines() if self._output.exists() else []
        return sum(line.endswith(_MARKS) for line in lines)


@asynccontextmanager
async def injected(pid: int, output: Path, rules: Sequence[str]) -> AsyncGenerator[Spell]:
    """Let *rules* hold for every thread of a process while the context lasts.

    Args:
        pid: the process; it may end meanwhile.
        output: a file for what was touched.
        rules: as strace has them for `inject`: ``fsync:delay_exit=50000`` (microseconds),
            ``pwrite64:error=EIO``. The first word names the calls.

    Raises:
        MissingError: there is no strace, or it may not.
    """
    program = shutil.which("strace")
    if program is None:
        raise MissingError("strace (apt-get install strace)")
    calls = ",".join(rule.partition(":")[0] for rule in rules)
    words = [word for rule in rules for word in ("-e", f"inject={rule}")]
    process = await asyncio.create_subprocess_exec(
        program,
        *("-f", "-qq", "-o", str(output), "-e", f"trace={calls}", *words, "-p", str(pid)),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )
    try:
        await _until_attached(process, pid)
        yield Spell(output)
    finally:
        await _let_go(process)


async def _until_attached(process: Process, pid: int) -> None:
    async with asyncio.timeout(_ATTACH_S):
        while not _is_traced(pid):
            if process.returncode is not None:
                assert process.stderr is not None
                said = (await process.stderr.read()).decode(errors="replace").strip()
                raise MissingError(f"strace that may look at a server ({said})")
            await pass_time(_LOOK_S)


def _is_traced(pid: int) -> bool:
    """Whether every thread is; a new one is from its beginning."""
    threads = list(Path(f"/proc/{pid}/task").glob("*/status"))
    with suppress(OSError):
        return bool(threads) and all(
            b"TracerPid:\t0\n" not in thread.read_bytes() for thread in threads
        )
    return False


async def _let_go(process: Process) -> None:
    """End it in order: it lets go of each thread before it ends."""
    if process.returncode is None:
        # It may be ending by itself, as the server has: send_signal would reap it before asyncio.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            await process.wait()
            return
    process.kill()
    await process.wait()
