"""Run one command that nobody trusts, within bounds, from an event loop.

:func:`run_bounded` starts the warden (see :mod:`.warden`), reads the command's output up to a
limit, and returns only when the warden has killed and reaped everything. The agent's end of the
warden's standard input is the lifeline: closing it, by a decision or by dying, ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from threadbus.agents.tools.errors import ProcessLostError, ProcessStartError
from threadbus.agents.tools.process.outcome import Bounds, Isolation, Outcome, ended_by, last_line
from threadbus.agents.tools.process.warden import Report, Settings
from threadbus.agents.tools.process.workspace import outlast

_CHUNK_BYTES: Final = 65536
_GRACE_S: Final = 15.0
"""What a busy machine may take to start and to kill everything, on top of the wall time."""

# Imports one module of this folder without running the __init__ of the packages above it: those
# import the whole agent runtime, and the warden's interpreter has no site-packages.
_ENTRY: Final = """
import importlib, sys, types
for name, folder in zip(("threadbus", "threadbus.agents", "threadbus.agents.tools"), sys.argv[2:]):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
importlib.import_module(sys.argv[1]).main()
"""
_TOOLS: Final = Path(__file__).parents[1]
_WARDEN: Final = "threadbus.agents.tools.process.warden"


def module_argv(module: str, *, site: bool) -> list[str]:
    """Return the command that runs ``main()`` of *module*, of this folder, by itself.

    Args:
        module: Full name; it may import only the standard library, other such modules and, with
            *site*, installed packages.
        site: Whether installed packages can be imported; starting is slower with them.
    """
    flags = ["-I", "-B"] if site else ["-I", "-B", "-S"]
    folders = [str(_TOOLS.parents[1]), str(_TOOLS.parent), str(_TOOLS)]
    return [sys.executable, *flags, "-X", "utf8", "-c", _ENTRY, module, *folders]


async def run_bounded(
    argv: Sequence[str],
    *,
    folder: Path,
    bounds: Bounds,
    environment: Mapping[str, str],
    namespaces: bool = True,
) -> Outcome:
    """Run *argv* in *folder* and return how it ended.

    Args:
        argv: The command; the first word is an absolute path.
        folder: The working folder: the only place where the command may write.
        bounds: What the command may use.
        environment: All of the command's environment.
        namespaces: False leaves the kernel's namespaces out, as on a system without them.

    Raises:
        ProcessStartError: The command could not be started.
        ProcessLostError: The command could not be ended.

    Cancellation: kills every process of the run, waits until they are gone, and is passed on.
    """
    settings = Settings(
        argv=list(argv),
        environment=dict(environment),
        folder=str(folder),
        readable=sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, str(_TOOLS)}),
        namespaces=namespaces,
        wall_s=bounds.wall_time.total_seconds(),
        cpu_s=max(1, -(-bounds.cpu_time // timedelta(seconds=1))),
        memory_bytes=bounds.memory_bytes,
        file_bytes=bounds.file_bytes,
        folder_bytes=bounds.folder_bytes,
        folder_entries=bounds.folder_entries,
        processes=bounds.processes,
        open_files=bounds.open_files,
    )
    run = _Run(settings, bounds.output_bytes)
    # A task of its own, which a cancellation of the caller does not reach: it ends by itself,
    # when all is cleaned up.
    task = asyncio.create_task(run.execute(), name="threadbus.agents.tools.run_bounded")
    return await outlast(task, run.cancel)


class _Output:
    def __init__(self) -> None:
        self.kept = bytearray()
        self.truncated = False

    async def collect(
        self, stream: asyncio.StreamReader, limit: int, overflow: Callable[[], None]
    ) -> None:
        """Keep the first *limit* bytes; read on, since a full pipe would hold up the end."""
        while chunk := await stream.read(_CHUNK_BYTES):
            room = limit - len(self.kept)
            self.kept += chunk[:room]
            if len(chunk) > room:
                self.truncated = True
                overflow()


class _Run:
    def __init__(self, settings: Settings, output_bytes: int) -> None:
        self._settings = settings
        self._output_bytes = output_bytes
        self._lifeline: asyncio.StreamWriter | None = None
        self._cancelled = False
        self._overflowed = False
        self._stdout = _Output()
        self._stderr = _Output()

    def cancel(self) -> None:
        """End the run, whose outcome nobody will read. Idempotent."""
        self._cancelled = True
        self._end()

    def _overflow(self) -> None:
        self._overflowed = True
        self._end()

    def _end(self) -> None:
        """Have the warden end the run. Idempotent."""
        if self._lifeline is not None and not self._lifeline.is_closing():
            # A word before the end tells the warden that the agent lives and cleans up itself.
            self._lifeline.write(b"stop\n")
            self._lifeline.close()

    async def execute(self) -> Outcome:
        started = time.monotonic()
        report_read, report_write = os.pipe()
        try:
            await self._attend(await self._start(report_write), report_write)
            report = os.read(report_read, _CHUNK_BYTES)
        finally:
            os.close(report_read)
        return self._outcome(report, time.monotonic() - started)

    async def _start(self, report_fd: int) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *module_argv(_WARDEN, site=False),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(report_fd,),
                start_new_session=True,
                env={},
            )
        except OSError as error:
            raise ProcessStartError(sys.executable, error.strerror or str(error)) from error
        finally:
            os.close(report_fd)

    async def _attend(self, process: asyncio.subprocess.Process, report_fd: int) -> None:
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        assert stdin is not None and stdout is not None and stderr is not None  # noqa: S101, PT018
        self._lifeline = stdin
        settings = self._settings._replace(report_fd=report_fd)
        if self._cancelled:  # while the process started
            self._end()
        else:
            stdin.write(json.dumps(settings._asdict()).encode() + b"\n")
        limit_s = settings.wall_s + _GRACE_S
        limit = self._output_bytes
        try:
            async with asyncio.timeout(limit_s), asyncio.TaskGroup() as group:
                group.create_task(self._stdout.collect(stdout, limit, self._overflow))
                group.create_task(self._stderr.collect(stderr, limit, self._overflow))
                group.create_task(process.wait())
        except TimeoutError as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise ProcessLostError(process.pid, limit_s) from error
        finally:
            self._end()

    def _outcome(self, raw_report: bytes, duration_s: float) -> Outcome:
        command = self._settings.argv[0]
        stderr = bytes(self._stderr.kept)
        if not raw_report and not (self._cancelled or self._overflowed):
            raise ProcessStartError(command, last_line(stderr) or "its warden was killed")
        report = Report(**json.loads(raw_report)) if raw_report else Report("lost")
        if report.error:
            raise ProcessStartError(command, report.error)
        ended, exit_status, name = ended_by(
            report,
            overflowed=self._overflowed,
            stderr=stderr,
            cpu_limit_s=self._settings.cpu_s,
        )
        return Outcome(
            ended=ended,
            exit_status=exit_status,
            signal=name,
            stdout=bytes(self._stdout.kept),
            stderr=stderr,
            stdout_truncated=self._stdout.truncated,
            stderr_truncated=self._stderr.truncated,
            duration_s=duration_s,
            cpu_s=report.cpu_s,
            peak_memory_bytes=report.peak_memory_bytes,
            isolation=Isolation(
                network=report.network_cut,
                processes=report.processes_hidden,
                files=report.files_hidden,
                unprivileged=report.unprivileged,
            ),
        )
