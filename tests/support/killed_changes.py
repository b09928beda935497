"""Changes of an access folder, each in a process that is killed at one of its file operations.

    python -m tests.support.killed_changes FOLDER INTO WHAT

makes INTO/1, INTO/2, … of FOLDER: in the nth the change got as far as its nth operation on a file.
The last one is whole.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from threadbus.bus import access

_EVENTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir"})
CHANGES: Final[dict[str, Callable[[access.AccessFolder], Awaitable[object]]]] = {
    "init": lambda folder: folder.init(jwt=True),
    "rotate": lambda folder: folder.rotate("web"),
    "revoke": lambda folder: folder.revoke("web"),
}
_MOST: Final = 100


def _change(folder: Path, what: str, kill_at: int) -> None:
    """Make the change; be killed at an operation on a file of *folder*."""
    done = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        if event not in _EVENTS or not str(arguments[0]).startswith(str(folder)):
            return
        # Opened for reading it changes nothing.
        if event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR):
            return
        done += 1
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        await CHANGES[what](access.AccessFolder(folder))

    sys.addaudithook(count)
    asyncio.run(run())


def main(folder: Path, into: Path, what: str) -> None:
    """Make them all."""
    for kill_at in range(1, _MOST):
        copied = into / str(kill_at)
        shutil.copytree(folder, copied)
        child = os.fork()
        if child == 0:
            try:
                _change(copied, what, kill_at)
            except BaseException as error:
                sys.stderr.write(f"{what} {kill_at}: {error!r}\n")
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            continue
        sys.exit(os.WEXITSTATUS(status))
    sys.exit("it does not end")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
