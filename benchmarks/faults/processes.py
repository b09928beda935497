"""Faults of processes: real agents are killed, stopped, slow, or passed over."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from benchmarks.faults.cast import Cast, Entry
from benchmarks.faults.scenario import Truth, at, clean, fault
from benchmarks.faults.team import process
from threadbus.schemas import (
    AssignmentFinished,
    EventData,
    HandlingEnded,
    HandlingStarted,
    Recorded,
)

_SILENT_S = 3.5
_PATIENCE_S = 60.0


@fault("U3 U4 U1", is_slow=True, is_open=True)
async def process_killed(cast: Cast) -> Truth:
    """An agent is killed while it works, and nobody takes its place."""
    name = f"mortal-{cast.task[-8:]}"
    async with process(name, cast.url, "hang") as agent:
        await cast.open("planner", name)
        made = await cast.assign("planner", name, "Count the rows of the file")
        begun = await _wait(cast, HandlingStarted, name)
        await agent.kill()
        await asyncio.sleep(_SILENT_S)
    return at(name, begun, made)


@fault("F1", is_slow=True)
async def process_killed_and_replaced(cast: Cast) -> Truth:
    """An agent is killed while it works; another process gets the mention again."""
    name = f"reborn-{cast.task[-8:]}"
    async with process(name, cast.url, "hang") as agent:
        await cast.open("planner", name)
        await cast.assign("planner", name, "Count the rows of the file")
        begun = await _wait(cast, HandlingStarted, name)
        await agent.kill()
    async with process(name, cast.url, "prompt"):
        await _wait(cast, AssignmentFinished, name)
        await _wait(cast, HandlingEnded, name)
    await cast.done("planner")
    started = await _all(cast, HandlingStarted, name)
    return at(name, begun, *started)


@fault("U3 U4", is_slow=True)
async def process_stalled(cast: Cast) -> Truth:
    """An agent stands still for seconds in the middle of its work."""
    name = f"frozen-{cast.task[-8:]}"
    async with process(name, cast.url, "slow") as agent:
        await cast.open("planner", name)
        made = await cast.assign("planner", name, "Count the rows of the file")
        begun = await _wait(cast, HandlingStarted, name)
        agent.stop()
        await asyncio.sleep(_SILENT_S)
        agent.go_on()
        await _wait(cast, HandlingEnded, name)
    await cast.done("planner")
    return at(name, begun, made)


@fault("U2", is_slow=True)
async def process_late(cast: Cast) -> Truth:
    """An agent works on past the deadline of its assignment."""
    name = f"tardy-{cast.task[-8:]}"
    async with process(name, cast.url, "slow"):
        await cast.open("planner", name)
        await cast.assign("planner", name, "Count the rows of the file", deadline_s=0.3)
        late = await _wait(cast, AssignmentFinished, name)
        await _wait(cast, HandlingEnded, name)
    await cast.done("planner")
    return at(name, late)


@fault("LB", is_slow=True)
async def process_passed_over(cast: Cast) -> Truth:
    """An agent is at work, and the same is given to another."""
    name = f"busy-{cast.task[-8:]}"
    text = "Count the rows of the file sales.csv"
    async with process(name, cast.url, "slow"):
        await cast.open("planner", name, "coder")
        await cast.assign("planner", name, text)
        await _wait(cast, HandlingStarted, name)
        await asyncio.sleep(1.1)
        second = await cast.assign("planner", "coder", text)
        await cast.finish(second, "There are twelve rows.")
        await _wait(cast, HandlingEnded, name)
    await cast.done("planner")
    return at("planner", second)


@clean(is_slow=True)
async def process_at_work(cast: Cast) -> None:
    """An agent in a process of its own does what it is given."""
    name = f"prompt-{cast.task[-8:]}"
    async with process(name, cast.url, "prompt"):
        await cast.open("planner", name)
        for text in ("Count the rows of sales.csv", "Count the rows of stock.csv"):
            made = await cast.assign("planner", name, text)
            await _wait(cast, AssignmentFinished, name, after=made.seq)
            await _wait(cast, HandlingEnded, name, after=made.seq)
    await cast.done("planner")


@clean(is_slow=True)
async def slow_process_that_is_waited_for(cast: Cast) -> None:
    """An agent takes its time, and is waited for."""
    name = f"slow-{cast.task[-8:]}"
    async with process(name, cast.url, "slow"):
        await cast.open("planner", name)
        made = await cast.assign("planner", name, "Count the rows", deadline_s=60)
        await _wait(cast, HandlingEnded, name, after=made.seq)
    await cast.done("planner")


async def _wait(cast: Cast, kind: type[EventData], sender: str, *, after: int = 0) -> Entry:
    """Wait until *sender* has said something of a kind."""
    async with (
        asyncio.timeout(_PATIENCE_S),
        aclosing(cast.bus.follow(cast.task, after=after)) as entries,
    ):
        async for item in entries:
            if isinstance(item, Recorded) and _is(item, kind, sender):
                return Entry(item.seq, item.event)
    raise RuntimeError(f"the log ended before {kind.__name__} of {sender}")


async def _all(cast: Cast, kind: type[EventData], sender: str) -> list[Entry]:
    async with aclosing(cast.bus.read(cast.task)) as entries:
        return [
            Entry(item.seq, item.event)
            async for item in entries
            if isinstance(item, Recorded) and _is(item, kind, sender)
        ]


def _is(item: Recorded, kind: type[EventData], sender: str) -> bool:
    return isinstance(item.event.data, kind) and item.event.sender == sender
