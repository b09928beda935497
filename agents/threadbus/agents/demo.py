"""A team on real input: a server, a model (or a playbook) and the agents as processes.

:func:`demo_team` starts them and never leaves one behind: each agent ends with its standard
input, whose other end this process holds, so it is gone even when this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threadbus.agents.errors import InvalidSettingError
from threadbus.agents.model import PLAYBOOK, ModelSettings
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.script import DemoError, TeamScript
from threadbus.bus import Bus, ThreadClosedError, connect, server, server_errors
from threadbus.schemas import (
    TaskId,
    export_line,
)

_FOLDERS: Final = 8
_READY_S: Final = 60.0
_DRAIN_S: Final = 2.0
_STOP_S: Final = 10.0
_LOG_LINES: Final = 12
_RESTARTS: Final = 5
_WITH_A_MODEL: Final = (
    "BUS_COMPLETION_",
    "BUS_MODEL_",
    "BUS_TRANSCRIPTION_",
    "BUS_WEB_",
    "BUS_ANEMOI_",
    "BUS_YORK_",
)
"""Settings of the environment that count where a model answers; a playbook plays without."""


@dataclass
class DemoTeam:
    """What runs."""

    bus: Bus
    url: str
    data: Path
    playbook: Path | None
    """The playbook that answers; None where a model does."""
    model: str
    logs: Path
    agents: Mapping[str, str]
    """Name → where it is loaded from."""
    environ: Mapping[str, str]
    """Of the agents."""
    processes: dict[str, Process] = field(default_factory=dict[str, Process])

    async def keep_running(self, on_restart: Callable[[str], None]) -> str:
        """Start agents again that are killed, until one ends for good; return what it said last.

        Args:
            on_restart: told the name of each agent that is started again.

        Raises:
            DemoError: an agent does not start again.

        Cancellation: the agents run on; :meth:`stop_agents` ends them.
        """
        restarts = Counter[str]()
        while True:
            name = await self._first_to_end()
            code = self.processes[name].returncode or 0
            # Who was killed goes on after a restart; who ends by itself does so again.
            if code >= 0 or restarts[name] == _RESTARTS:
                return f"agent {name} ended\n{_tail(self._log_of(name))}"
            restarts[name] += 1
            on_restart(name)
            await self.start(name)

    async def _first_to_end(self) -> str:
        waits = {
            asyncio.create_task(process.wait(), name=f"threadbus.demo[{name}]"): name
            for name, process in self.processes.items()
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return waits[done.pop()]

    async def start(self, name: str) -> None:
        """Start one agent and wait until it takes mentions.

        Raises:
            DemoError: it does not start.
        """
        path = self._log_of(name)
        with path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "threadbus.agents.cli", "run", "--json", "--takeover", "--while-stdin"),
                self.agents[name],
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=self.environ,
                # Ctrl-C is ours to hand on: the agents end in order, after the view.
                start_new_session=True,
            )
        self.processes[name] = process
        if process.stdout is None:
            raise DemoError(f"agent {name} has no standard output")
        try:
            async with asyncio.timeout(_READY_S):
                ready = await process.stdout.readline()
        except TimeoutError:
            ready = b""
        if not ready:
            raise DemoError(f"agent {name} did not start", _tail(path))

    def _log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    async def stop_agents(self) -> None:
        """End every agent in order, so that what they still have to say is in the log."""
        await _stop(list(self.processes.values()))


@asynccontextmanager
async def demo_team(script: TeamScript, model: str = "") -> AsyncGenerator[DemoTeam]:
    """Start the server, the playbook server and the agents; all are gone at the end.

    Args:
        script: which team.
        model: a real model, by OPENAI_API_KEY and OPENAI_BASE_URL; a playbook when empty.

    Raises:
        DemoError: an agent does not start.
        InvalidSettingError: a real model is named and there is no key and no server for it.
    """
    home = server.state_folder() / "demo"
    async with AsyncExitStack() as stack:
        kept = _WITH_A_MODEL if model else ()
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("BUS_") or name.startswith(kept)
        }
        book: Path | None = None
        if model:
            _check_model(model)
            environ["BUS_MODEL"] = model
        else:
            book = script.playbook
            playbook = await stack.enter_async_context(PlaybookServer(book))
            environ |= {
                "BUS_MODEL": PLAYBOOK,
                "OPENAI_BASE_URL": playbook.base_url,
                "OPENAI_API_KEY": "none",
            }
        running = await _enter_server(stack, home)
        environ |= {"BUS_URL": running.url, "BUS_DRAIN_TIMEOUT": f"{_DRAIN_S:g}"}
        environ |= script.environ or {}
        bus = await stack.enter_async_context(connect(running.url, name="user"))
        await _end_old_tasks(bus)
        logs = home / "agents"
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        team = DemoTeam(
            *(bus, running.url, running.data, book, model or PLAYBOOK, logs),
            script.agents,
            environ,
        )
        stack.push_async_callback(team.stop_agents)
        async with asyncio.TaskGroup() as tasks:
            for name in script.agents:
                tasks.create_task(team.start(name), name=f"threadbus.demo[{name}]")
        yield team


async def export(bus: Bus, task: TaskId) -> Path:
    """Write the log of a super-task as `busreplay --format jsonl` does; return the file.

    Raises:
        DemoError: the file cannot be written.
    """
    path = server.state_folder() / "demo" / f"{task}.jsonl"
    lines = [export_line(entry) async for entry in bus.read(task)]
    try:
        path.write_bytes(b"".join(lines))
    except OSError as error:
        raise DemoError(f"{path}: {error.strerror}") from error
    return path


def _check_model(model: str) -> None:
    """Check the variables before anything is started."""
    settings = ModelSettings.from_env({**os.environ, "BUS_MODEL": model})
    if not settings.api_key and not settings.base_url:
        raise InvalidSettingError(
            "OPENAI_API_KEY", "", "set it, or leave --model out for a demo without a key"
        )


async def _enter_server(stack: AsyncExitStack, home: Path) -> server.EmbeddedServer:
    """Start a server on a data folder that no other demo uses just now."""
    for number in range(1, _FOLDERS + 1):
        data = home / ("server" if number == 1 else f"server-{number}")
        with contextlib.suppress(server_errors.DataFolderLockedError):
            return await stack.enter_async_context(server.EmbeddedServer(data))
    raise DemoError(f"{_FOLDERS} demos run already; end one of them")


async def _end_old_tasks(bus: Bus) -> None:
    """End what a demo left that was killed: the agents would work on it first."""
    for summary in await bus.tasks.list():
        if not summary.status.is_final:
            with contextlib.suppress(ThreadClosedError):
                await bus.tasks.cancel(summary.task, "the demo was ended before its answer")


async def _stop(processes: list[Process]) -> None:
    for process in processes:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await asyncio.gather(*(process.wait() for process in processes))
    except TimeoutError:
        # Killed below; what it worked on is given back by the server.
        pass
    finally:
        for process in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
    await asyncio.gather(*(process.wait() for process in processes))


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])
