"""nats-server processes with a configuration of the test's own: accounts, clusters, and so on."""

from __future__ import annotations

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.nats_server import nats_server_binary


class ConfiguredServer:
    """One server; it keeps its port and its data over a kill and a start."""

    def __init__(
        self,
        folder: Path,
        name: str,
        config: Mapping[str, object],
        prefix: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._config = dict(config)
        self._prefix = tuple(prefix)
        self._process: Process | None = None
        self.url = ""

    async def start(self) -> None:
        """Start it and wait until it listens."""
        config = {
            "server_name": self.name,
            "host": "127.0.0.1",
            "port": int(self.url.rpartition(":")[2]) if self.url else -1,
            "log_file": str(self._log),
            **self._config,
        }
        path = self._folder / f"{self.name}.conf"
        path.write_text(json.dumps(config), encoding="utf-8")
        self._log.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *self._prefix, nats_server_binary(), "--config", path, stdout=DEVNULL, stderr=DEVNULL
        )
        await eventually(self._listens, f"{self.name} listens")

    def _listens(self) -> bool:
        text = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        address = re.search(r"client connections on (\S+)\n", text)
        if address is None or "Server is ready" not in text:
            return False
        self.url = f"nats://{address[1]}"
        return True

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def configured_server(
    folder: Path, config: Mapping[str, object], name: str = "server"
) -> AsyncGenerator[str]:
    """Run a server with *config* and give its URL."""
    server = ConfiguredServer(folder, name, config)
    try:
        await server.start()
        yield server.url
    finally:
        await server.kill()
