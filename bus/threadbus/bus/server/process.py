"""Start nats-server on a leash: it dies with the process that started it, however that dies.

SIGKILL of the owner runs none of its code, so something outside of it has to end the server. What
Linux offers (``PR_SET_PDEATHSIG``) fires when the *thread* that forked ends, needs code between
fork and exec (unsafe beside threads), and macOS has nothing like it. A pipe works everywhere: the
owner alone holds its write end, and the system closes that when the owner is gone.

So a line of shell forks a watchdog and *becomes* the server by exec. The server is thus our direct
child (its pid, signals and exit code are the real ones), and the watchdog is a shell that reads
the pipe and at its end kills the process group, which is the server and itself. There is no moment
without a watchdog: it is there before the server is. It cannot hit a stranger either: POSIX does
not give out a pid again while a process group of that number exists, and the watchdog is a member
of that group.

The group is a session of its own, so Ctrl-C in a terminal reaches the owner, who stops the server
when it is done with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Final

from threadbus.bus.server.files import Descriptor
from threadbus.bus.server.folder import ServerFolder
from threadbus.bus.server_errors import ServerSpawnError, ServerStopError

_SHELL: Final = "/bin/sh"

# The pipe comes as standard input, the lock as standard output: dash redirects only descriptors
# of one digit, and those that are passed on otherwise keep their own, longer numbers. The server
# keeps 4, the lock; the watchdog must not, or the folder would stay locked after the server died.
_BECOME_SERVER: Final = """\
exec 3<&0 4>&1 </dev/null >&2
(exec 4>&-; read -r _ <&3; kill -KILL 0) &
exec 3<&-
exec "$@"
"""

_REAP_S: Final = 10.0


class LeashedServer:
    """A nats-server process that dies with us."""

    def __init__(self, process: Process, leash: Descriptor) -> None:
        self._process = process
        self._leash = leash

    @classmethod
    async def start(cls, binary: Path, folder: ServerFolder) -> LeashedServer:
        """Start *binary* on the configuration in *folder*; does not wait until it is ready.

        Cancellation: kills what was started.

        Raises:
            ServerSpawnError: The system does not start another process.
        """
        read_fd, write_fd = os.pipe()
        leash = Descriptor(write_fd)
        with contextlib.closing(Descriptor(read_fd)) as read_end:
            try:
                with contextlib.closing(_open_output(folder.output)) as output:
                    process = await asyncio.create_subprocess_exec(
                        _SHELL,
                        "-c",
                        _BECOME_SERVER,
                        "threadbus-watchdog",
                        binary,
                        "--config",
                        folder.config,
                        stdin=read_end.fileno(),
                        stdout=folder.lock.fileno(),
                        stderr=output.fileno(),
                        cwd=folder.path,
                        start_new_session=True,
                    )
            except BaseException as error:
                leash.close()
                if isinstance(error, OSError):
                    raise ServerSpawnError(error.strerror or str(error)) from error
                raise
        return cls(process, leash)

    @property
    def pid(self) -> int:
        """The process; somebody else's may have the number once *exit_code* is set."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it lives; negative is the number of a signal."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until the process ends and return its exit code.

        Cancellation: leaves the process alone.
        """
        return await self._process.wait()

    async def stop(self, deadline: timedelta) -> None:
        """End the process: SIGTERM, and SIGKILL after *deadline*; idempotent.

        Cancellation: kills the process.

        Raises:
            ServerStopError: It outlived SIGKILL.
        """
        try:
            if self.exit_code is None:
                self._send(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(deadline.total_seconds()):
                        await self.wait()
        finally:
            await self.kill()

    async def kill(self) -> None:
        """Kill the process with SIGKILL, wait until it is gone, end its watchdog; idempotent.

        Cancellation: is put off until the process is gone.

        Raises:
            ServerStopError: It outlived SIGKILL.
        """
        await finish(self._kill(), "threadbus.server.kill")

    def let_go(self) -> None:
        """Kill the process and its watchdog without waiting; idempotent."""
        self._leash.close()

    def _send(self, number: signal.Signals) -> None:
        # Not Process.send_signal: that reaps a child that has just died, and asyncio then reports
        # exit code 255. To signal the pid is safe while the watchdog lives: see above.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def _kill(self) -> None:
        if self.exit_code is None:
            self._send(signal.SIGKILL)
        self.let_go()
        try:
            async with asyncio.timeout(_REAP_S):
                await self.wait()
        except TimeoutError as error:
            raise ServerStopError(self.pid, _REAP_S) from error


async def finish(work: Coroutine[None, None, None], name: str) -> None:
    """Run *work* to its end; a cancellation comes through after it."""
    task = asyncio.create_task(work, name=name)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _open_output(path: Path) -> Descriptor:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    return Descriptor(os.open(path, flags, 0o600))
