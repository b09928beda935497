"""The programs that a cluster needs: nats-server as a judge of its configuration, and a copier."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threadbus.bus.access_errors import AccessConfigError
from threadbus.bus.cluster.layout import ClusterNode
from threadbus.bus.cluster_errors import ClusterCopyError
from threadbus.bus.server.binary import find_server_binary

_CHECK_S: Final = 20.0
_COPY_S: Final = 120.0
_SAID_BYTES: Final = 4096
_DIGEST: Final = re.compile(r"\((sha256:[0-9a-f]{64})\)")


async def config_digest(folder: Path) -> str:
    """Have ``nats-server -t`` look at the configuration of one server; return its digest.

    A running server tells the digest of what it runs with in the same form.

    Raises:
        AccessConfigError: it would not take it; has what it says.
        ServerBinaryMissingError: there is no nats-server.

    Cancellation: leaves nothing behind.
    """
    binary = await find_server_binary()
    words = [str(binary.path), "-t", "--config", "server.conf"]
    try:
        code, said = await _run(words, folder, _CHECK_S)
    except TimeoutError as error:
        raise AccessConfigError("it did not answer in time") from error
    found = _DIGEST.search(said)
    if code != 0 or found is None:
        raise AccessConfigError(f"{folder.name}: {said}")
    return found[1]


async def copy_file(command: str, node: ClusterNode, folder: Path, name: str) -> None:
    """Run the command that brings a file to the machine of *node*, without a shell.

    Args:
        command: as it was given; ``{file}`` and others in it are filled in.
        node: whose it is.
        folder: its folder here.
        name: the file, in that folder.

    Raises:
        ClusterCopyError: it failed, or did not end within two minutes.

    Cancellation: ends the command.
    """
    file = folder / name
    filled = {
        "{file}": str(file),
        "{host}": node.host,
        "{node}": node.name,
        "{path}": f"{node.name}/{name}",
    }
    try:
        words = [_fill(word, filled) for word in shlex.split(command)]
        code, said = await _run(words, file.parent, _COPY_S)
    except TimeoutError as error:
        raise ClusterCopyError(node.name, command, "did not end in time") from error
    except (OSError, ValueError) as error:
        raise ClusterCopyError(node.name, command, f"cannot be run: {error}") from error
    if code != 0:
        raise ClusterCopyError(node.name, command, f"ended with {code}: {said}")


def _fill(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


async def _run(words: Sequence[str], folder: Path, patience_s: float) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(patience_s):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    text = " ".join(said[-_SAID_BYTES:].decode("utf-8", "replace").split())
    return process.returncode or 0, text
