"""Try a configuration before it is in force, and put it in force without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from threadbus.bus.access_errors import AccessConfigError
from threadbus.bus.server.binary import find_server_binary
from threadbus.bus.server.reloading import reload_process
from threadbus.bus.server.settings import ACCESS_LINK
from threadbus.bus.server.state import living_servers

_CHECK_S: Final = 20.0
_SAID_BYTES: Final = 4096


async def check_config(accounts: bytes) -> None:
    """Have ``nats-server -t`` look at the accounts.

    Args:
        accounts: the part of the configuration, as :class:`AccessFolder` writes it.

    Raises:
        AccessConfigError: the server would not take it; has what it says.
        ServerBinaryMissingError: there is no nats-server.

    Cancellation: leaves nothing behind.
    """
    binary = await find_server_binary()
    with tempfile.TemporaryDirectory(prefix="threadbus-") as folder:
        path = Path(folder) / "server.conf"
        path.touch(mode=0o600)
        path.write_bytes(accounts)
        process = await asyncio.create_subprocess_exec(
            binary.path,
            "-t",
            "--config",
            path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_CHECK_S):
                said, _ = await process.communicate()
        except TimeoutError as error:
            raise AccessConfigError("it did not answer in time") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    if process.returncode != 0:
        text = said[-_SAID_BYTES:].decode("utf-8", "replace").replace(str(path), "accounts.conf")
        raise AccessConfigError(" ".join(text.split()))


async def reload_servers(config: Path) -> list[int]:
    """Have every server that this user runs with *config* (``bus up --auth``) read it again.

    Connections whose key is gone are cut; all others stay.

    Args:
        config: the accounts, :attr:`AccessFolder.config`.

    Returns:
        The processes; empty where none runs.

    Raises:
        ReloadError: one did not take it.

    Cancellation: some may have reloaded.
    """
    found: list[int] = []
    for state in living_servers():
        link = state.data / ACCESS_LINK
        with contextlib.suppress(OSError):
            if os.path.samefile(link, config):  # noqa: ASYNC240, PTH121 - two stats
                await reload_process(state.pid, state.data / "server.log", config)
                found.append(state.pid)
    return found
