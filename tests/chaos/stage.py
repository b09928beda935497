"""What every scenario has: a team in processes of its own, writers, and a check at the end."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.chaos.check import read_log
from tests.chaos.checking import check
from tests.chaos.history import Journal, read_history
from tests.chaos.verdict import Breach, Verdict
from tests.chaos.waiting import pass_time, pause
from tests.chaos.writing import Writer
from tests.support.agent_process import AgentProcess
from tests.support.busreplay import COMMAND
from tests.support.cli import environment
from threadbus.bus import Bus, BusError, BusSettings, connect
from threadbus.schemas import TaskId

TEAM: Final = ("front", "middle", "back")
PROGRAM: Final = Path(__file__).parent.parent / "support" / "fault_team.py"
ACK_WAIT: Final = timedelta(seconds=3)
PRESENCE_TTL: Final = timedelta(seconds=3)

_WRITERS: Final = 3
_MOST_TASKS: Final = 150
"""Of one writer: what is checked at the end is bounded, however fast the machine is."""

_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 1.0
_EXPORT_TASKS: Final = 500
_APPEND_S: Final = 20
_LISTED: Final = 100_000


@dataclass
class Stage:
    """One scenario on its way.

    Args:
        folder: for data, journals and exports.
        seed: of everything that is decided by chance.
        seconds: how long faults are injected.
    """

    folder: Path
    seed: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """What was done to whom, for the table."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the faults are over."""
    replicas: int = 1
    partitions: int = 1
    """Streams of the log."""
    inboxes: int = 1
    """Streams of the inboxes."""
    keeps: Path | None = None
    """Where logs and histories go that have a breach."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.writers: set[str] = set()
        self.outside: set[str] = {"user"}
        self.extra: list[tuple[Breach, str]] = []
        """Breaches that a scenario found by itself."""

    def count(self, what: str, times: int = 1) -> None:
        """Count something that was done."""
        self.counts[what] = self.counts.get(what, 0) + times

    def breach(self, breach: Breach, text: str) -> None:
        """Report what the log does not tell."""
        self.extra.append((breach, text))

    def settings(self, url: str) -> BusSettings:
        """Return the settings of writers and readers."""
        return BusSettings(
            url=url,
            append_timeout=timedelta(seconds=_APPEND_S),
            connect_timeout=timedelta(seconds=10),
            replicas=self.replicas,
            partitions=self.partitions,
            inboxes=self.inboxes,
        )

    def environment(self, url: str, **more: str) -> dict[str, str]:
        """Return the variables of processes."""
        return {
            "BUS_URL": url,
            "BUS_COPIES": str(self.replicas),
            "BUS_PARTITIONS": str(self.partitions),
            "BUS_INBOXES": str(self.inboxes),
            "BUS_ACK_WAIT": f"{ACK_WAIT.total_seconds():g}",
            "BUS_PRESENCE_TTL": f"{PRESENCE_TTL.total_seconds():g}",
            "BUS_CONNECT_TIMEOUT": "10",
            "XDG_STATE_HOME": str(self.folder),
            **more,
        }

    async def rest(self, shortest: float, longest: float) -> bool:
        """Let a while pass that chance decides; False where the faults are over meanwhile."""
        return await pause(self.over, self.chance.uniform(shortest, longest))

    @asynccontextmanager
    async def team(
        self, url: str, names: Sequence[str] = TEAM, **more: str
    ) -> AsyncGenerator[dict[str, AgentProcess]]:
        """Run agents, each in a process of its own."""
        environ = self.environment(url, **more)
        team = {name: AgentProcess(f"{PROGRAM}:{name}", environ) for name in names}
        try:
            async with asyncio.TaskGroup() as tasks:
                for agent in team.values():
                    tasks.create_task(agent.start())
            yield team
        finally:
            for agent in team.values():
                await agent.kill()

    @asynccontextmanager
    async def writing(self, *urls: str, count: int = _WRITERS) -> AsyncGenerator[None]:
        """Write while the body injects faults; at its end the writers finish what they began."""
        async with AsyncExitStack() as stack:
            work: list[asyncio.Task[None]] = []
            for number in range(count):
                name = f"writer{number}"
                journal = stack.enter_context(Journal(self.journal(name)))
                bus = await stack.enter_async_context(
                    connect(self.settings(urls[number % len(urls)]), name=name)
                )
                writer = Writer(bus, journal, random.Random(self.chance.random()), TEAM)
                await writer.register()
                work.append(asyncio.create_task(writer.write(self.over, _MOST_TASKS), name=name))
            clock = asyncio.create_task(self._end(), name="chaos.clock")
            try:
                yield
                await self.over.wait()
                await asyncio.wait(work)
            finally:
                self.over.set()
                for task in (*work, clock):
                    task.cancel()
                await asyncio.gather(*work, clock, return_exceptions=True)
            for task in work:
                task.result()

    async def _end(self) -> None:
        await pass_time(self.seconds)
        self.over.set()

    def journal(self, name: str) -> Path:
        """Return the file of a writer whose journal has all that it sends."""
        self.writers.add(name)
        return self.folder / f"{name}.history.jsonl"

    async def settle(self, url: str, more: Sequence[Path] = ()) -> Verdict:
        """Wait until nothing is left to be done, then check what `busreplay export` writes.

        Args:
            url: where the server is.
            more: histories beside those of :meth:`journal`.
        """
        paths = [self.folder / f"{name}.history.jsonl" for name in sorted(self.writers)]
        histories = [read_history(path) for path in (*paths, *more) if path.exists()]
        outside = {*self.outside, *self.writers}
        async with connect(self.settings(url), name="checker") as bus:
            tasks = await self._until_quiet(bus, outside)
            left = await bus.pending_mentions()
        waiting = {name: left[name] for name in sorted(left) if name not in outside}
        exports = await self._export(url, tasks)
        items = [item for path in exports for item in read_log(path)]
        verdict = check(items, histories, complete=self.writers, outside=outside)
        for name, many in waiting.items():
            verdict.add(Breach.UNHANDLED, f"{many} mentions are left in the inbox of {name}")
        for breach, text in self.extra:
            verdict.add(breach, text)
        if verdict.breaches and self.keeps is not None:
            self.keeps.mkdir(parents=True, exist_ok=True)
            for path in (*exports, *paths, *more, *self.folder.glob("*.log")):
                with suppress(OSError):
                    shutil.copy(path, self.keeps)
        return verdict

    async def _until_quiet(self, bus: Bus, outside: set[str]) -> list[TaskId]:
        """Look until every mention is settled and every task has ended, or patience has."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        open_tasks: list[TaskId] | None = None
        tasks: list[TaskId] = []
        while True:
            with suppress(BusError, TimeoutError):
                if open_tasks is None:
                    tasks = [one.task for one in await bus.tasks.list(limit=_LISTED)]
                    open_tasks = tasks
                # What was settled stays settled.
                open_tasks = [one for one in open_tasks if not await _is_quiet(bus, one, outside)]
                left = await bus.pending_mentions()
                if not open_tasks and not any(left[name] for name in left if name not in outside):
                    return tasks
            if asyncio.get_running_loop().time() > deadline:
                return tasks
            await pass_time(_LOOK_S)

    async def _export(self, url: str, tasks: Sequence[TaskId]) -> list[Path]:
        exports: list[Path] = []
        for number, start in enumerate(range(0, len(tasks), _EXPORT_TASKS)):
            path = self.folder / f"log{number}.jsonl.gz"
            path.unlink(missing_ok=True)
            words = ("export", *tasks[start : start + _EXPORT_TASKS], "-o", str(path), "--url", url)
            process = await asyncio.create_subprocess_exec(
                COMMAND,
                *words,
                env=environment(self.folder),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            _, err = await process.communicate()
            if process.returncode:
                raise RuntimeError(f"busreplay export failed: {err.decode()}")
            exports.append(path)
        return exports


async def _is_quiet(bus: Bus, task: TaskId, outside: set[str]) -> bool:
    items = [entry async for entry in bus.read(task)]
    verdict = check(items, outside=outside)
    return not verdict.kinds & {Breach.UNHANDLED, Breach.STRANDED, Breach.INCOMPLETE}
