"""Very many agents at once.

In processes of their own: ``python -m tests.chaos.crowds URL FIRST COUNT``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.history import Journal, Phase
from tests.chaos.stage import Stage
from tests.chaos.verdict import Verdict
from tests.chaos.waiting import pass_time
from threadbus.agents import Agent, AgentRunner, Mention
from threadbus.bus import BusSettings, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    MessagePosted,
    TaskStatus,
    TextPart,
    new_event_id,
    new_task_id,
)

_AGENTS: Final = 1000
_PROCESSES: Final = 4
_MENTIONED: Final = 16
_READY_S: Final = 200.0
_LOOK_S: Final = 0.2
_SHOWN: Final = 4000
"""Bytes of what a process said that ended too early."""


async def thousand_agents(stage: Stage) -> Verdict:
    """1,000 agents, each over its own connection, connect at once and are mentioned at once."""
    agents = int(os.environ.get("CHAOS_AGENTS", str(_AGENTS)))
    share = agents // _PROCESSES
    async with EmbeddedServer() as server, AsyncExitStack() as stack:
        crowd: list[_Part] = []
        for number in range(_PROCESSES):
            path = stage.folder / f"crowd{number}.log"
            # Not a pipe: what nobody reads any more would keep the process from ending.
            log = stack.enter_context(path.open("wb"))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.chaos.crowds", server.url, str(number * share), str(share)),
                env={**os.environ, **stage.environment(server.url), **_PATIENT},
                stdout=log,
                stderr=log,
            )
            crowd.append(_Part(process, path))
        try:
            async with asyncio.timeout(_READY_S):
                for part in crowd:
                    await part.ready()
            stage.count("agents", share * _PROCESSES)
            await _mention_all(stage, server.url, [_name(i) for i in range(share * _PROCESSES)])
            return await stage.settle(server.url)
        finally:
            for part in crowd:
                if part.process.returncode is None:
                    part.process.kill()
            for part in crowd:
                await part.process.wait()


class _Part(NamedTuple):
    process: asyncio.subprocess.Process
    log: Path

    async def ready(self) -> None:
        """Wait until all of its agents are."""
        while True:
            said = self.log.read_bytes()
            if b"ready" in said.splitlines():
                return
            if self.process.returncode is not None:
                raise RuntimeError(f"agents ended: {said[-_SHOWN:].decode(errors='replace')}")
            await pass_time(_LOOK_S)


# A thousand leases and heartbeats on two cores take longer than those of three agents.
_PATIENT: Final = {"BUS_ACK_WAIT": "30", "BUS_PRESENCE_TTL": "60", "BUS_CONNECT_TIMEOUT": "60"}


def _name(number: int) -> str:
    return f"agent{number:04d}"


async def _mention_all(stage: Stage, url: str, names: Sequence[str]) -> None:
    name = "writer0"
    with Journal(stage.journal(name)) as journal:
        async with connect(stage.settings(url), name=name) as bus:
            await bus.registry.register(AgentCard(name=name), holder="chaos")

            async def one(asked: Sequence[str]) -> None:
                task, opening, said = new_task_id(), new_event_id(), new_event_id()
                journal.note(Phase.INVOKE, opening, task=task)
                opened = await bus.tasks.open(
                    "Who is there?", to=[], participants=asked, task=task, event_id=opening
                )
                journal.note(Phase.OK, opening, task=task, seq=opened.seq)
                journal.note(Phase.INVOKE, said, task=task)
                data = MessagePosted(parts=(TextPart("You?"),))
                sent = await bus.append(
                    data, task=task, thread=MAIN_THREAD, mentions=asked, event_id=said
                )
                journal.note(Phase.OK, said, task=task, seq=sent.seq)
                for agent in asked:
                    await bus.waits.for_reply(
                        task,
                        MAIN_THREAD,
                        said,
                        AgentName(agent),
                        after=sent.seq,
                        timeout=timedelta(seconds=_READY_S),
                    )
                closing = new_event_id()
                journal.note(Phase.INVOKE, closing, task=task)
                closed = await bus.tasks.close(task, TaskStatus.COMPLETED, event_id=closing)
                journal.note(Phase.OK, closing, task=task, seq=closed.seq)

            async with asyncio.TaskGroup() as tasks:
                for start in range(0, len(names), _MENTIONED):
                    tasks.create_task(one(names[start : start + _MENTIONED]))


async def _answer(mention: Mention) -> str:
    return f"here, {mention.text}"


async def _run(url: str, first: int, count: int) -> None:
    """Run some agents, each over a connection of its own, until killed."""
    settings = BusSettings.from_env(url=url)

    async def one(name: str, ready: asyncio.Event) -> None:
        agent = Agent(name)
        agent.on_mention(_answer)
        async with connect(settings, name=name) as bus:
            runner = AgentRunner(agent, bus)
            runner.ready = ready
            await runner.run()

    events = [asyncio.Event() for _ in range(count)]
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for number, ready in enumerate(events):
            group.create_task(one(_name(first + number), ready))
        for ready in events:
            await ready.wait()
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
