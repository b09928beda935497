"""Many prompts at once through teams that pause: every one concluded, none lost.

    python -m benchmarks.ioa_load [FILE.jsonl]

FILE has one JSON object a line with an ``instruction``; when absent it is
``ioa/open_instruction.jsonl`` below the folder that THREADBUS_DATA names. For each prompt a lead
opens a team, gives out two pieces of work, pauses, is woken, concludes and answers; the workers
think with the playbook model, so no model is asked. Lead and workers are processes of their own, on
a server of their own. Ends with 1 unless all are concluded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.server import private_server
from threadbus.agents import Agent, AgentLimits, Floor, Mention, open_team
from threadbus.agents.model import PLAYBOOK, ChatMessage
from threadbus.agents.model.playbook import PlaybookServer, parse_playbook
from threadbus.bus import Bus, BusError, Job, connect
from threadbus.schemas import (
    AssignmentFinished,
    Recorded,
    TaskId,
    TaskOpened,
    ThreadStateChanged,
)

_WORKERS: Final = ("outline", "check")
_BOOK: Final = '[[play]]\ntext = "Noted: {{ user | first_line }}"\n'
_PATIENCE: Final = timedelta(minutes=5)
_LIMITS: Final = AgentLimits(concurrency=16)

lead = Agent("lead", limits=_LIMITS)
outline = Agent("outline", limits=_LIMITS)
check = Agent("check", limits=_LIMITS)


@lead.on_mention
async def head(mention: Mention) -> None:
    """Open a team and pause; conclude once the work has ended."""
    if isinstance(mention.event.data, TaskOpened):
        floor = await open_team(mention, "Team", _WORKERS, goal=mention.text[:1000], max_turns=20)
        await floor.assign([Job(name, f"{name}: {mention.text}") for name in _WORKERS])
        return
    floor = Floor(mention)
    outcomes = await floor.outcomes()
    if outcomes:
        text = "\n".join(one.text if one is not None else "nothing" for one in outcomes.values())
        await floor.conclude(text)
        await mention.submit(text)


async def think(mention: Mention) -> str:
    """Do one piece of work."""
    answer = await mention.thinking.complete([ChatMessage.user(mention.text)])
    return answer.text


outline.on_mention(think)
check.on_mention(think)


class Prompt(msgspec.Struct):
    """One line of the file; what else it has is passed over."""

    instruction: str


class Count(msgspec.Struct):
    """What came of one prompt."""

    answered: bool
    wakes: int
    results: int


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a file."""
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Prompt).instruction for line in lines if line.strip()]


async def ask(bus: Bus, prompt: str) -> Count:
    """Put one prompt to the lead, and look at its log once it has ended."""
    opened = await bus.tasks.open(prompt, to=["lead"], participants=_WORKERS)
    task = opened.event.task
    answered = True
    try:
        await bus.waits.for_answer(task, timeout=_PATIENCE)
    except BusError as error:
        print(f"{task}: {error}", file=sys.stderr)
        answered = False
    return await _count(bus, task, answered=answered)


async def _count(bus: Bus, task: TaskId, *, answered: bool) -> Count:
    data = [entry.event.data async for entry in bus.read(task) if isinstance(entry, Recorded)]
    wakes = sum(isinstance(one, ThreadStateChanged) and one.wakes is not None for one in data)
    return Count(answered, wakes, sum(isinstance(one, AssignmentFinished) for one in data))


async def run(prompts: list[str]) -> list[Count]:
    """Start everything, put every prompt at once, and end everything."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(private_server())
        book = await stack.enter_async_context(PlaybookServer(parse_playbook(_BOOK, "load")))
        environ = os.environ | {
            "BUS_URL": url,
            "BUS_MODEL": PLAYBOOK,
            "OPENAI_BASE_URL": book.base_url,
            "OPENAI_API_KEY": "none",
        }
        for name in ("lead", *_WORKERS):
            await stack.enter_async_context(_agent(name, environ))
        bus = await stack.enter_async_context(connect(url, name="user"))
        return list(await asyncio.gather(*(ask(bus, prompt) for prompt in prompts)))


class _agent:  # noqa: N801 - used like a function
    """One agent as a process, for as long as the context lasts."""

    def __init__(self, name: str, environ: dict[str, str]) -> None:
        self._name = name
        self._environ = environ

    async def __aenter__(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "threadbus.agents.cli", "run", "--json", "--while-stdin"),
            f"benchmarks.ioa_load:{self._name}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environ,
        )
        assert self._process.stdout is not None  # noqa: S101
        if not await self._process.stdout.readline():
            raise RuntimeError(f"agent {self._name} did not start")

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        await self._process.wait()


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("file", nargs="?", type=Path)
    given = parser.parse_args()
    folder = os.environ.get("THREADBUS_DATA", "")
    path: Path | None = given.file
    if path is None and folder:
        path = Path(folder) / "ioa" / "open_instruction.jsonl"
    if path is None or not path.is_file():
        print(f"no prompts: {path or 'name a FILE or set THREADBUS_DATA'}", file=sys.stderr)
        return 2
    prompts = read_prompts(path)
    began = time.monotonic()
    counts = asyncio.run(run(prompts))
    concluded = sum(count.answered for count in counts)
    print(f"prompts    {len(prompts)}")
    print(f"concluded  {concluded}")
    print(f"lost       {len(prompts) - concluded}")
    print(f"woken once {sum(count.wakes == 1 for count in counts)}")
    print(f"results    {sum(count.results for count in counts)} of {len(_WORKERS) * len(prompts)}")
    print(f"took       {time.monotonic() - began:.1f} s", file=sys.stderr)
    return 0 if concluded == len(prompts) else 1


if __name__ == "__main__":
    sys.exit(main())
