"""A lead that gives out work and pauses, and workers; run as processes by the tests of pauses."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.eventually import eventually
from threadbus.agents import Agent, Floor, Mention, open_team
from threadbus.bus import Job
from threadbus.schemas import TaskOpened

MARK = Path(os.environ.get("DIE_MARK", "/nonexistent"))
PLACE = os.environ.get("DIE_AT", "")

lead = Agent("lead")
worker = Agent("worker")


def die(place: str) -> None:
    """End this process as a crash would, the first time that it comes here."""
    if place == PLACE and not MARK.exists():
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@lead.on_mention
async def head(mention: Mention) -> None:
    """Give two pieces of work to the worker, and answer with what came of them."""
    if isinstance(mention.event.data, TaskOpened):
        floor = await open_team(mention, "Two halves", ["worker"], max_turns=9)
        die("opened")
        await floor.assign([Job("worker", "left"), Job("worker", "right")])
        die("assigned")
        return
    floor = Floor(mention)
    outcomes = await floor.outcomes()
    if not outcomes:
        return
    die("woken")
    text = ", ".join(one.text if one is not None else "nothing" for one in outcomes.values())
    await floor.conclude(text)
    die("concluded")
    await mention.submit(text)


@worker.on_mention
async def work(mention: Mention) -> str:
    """Do one half; wait for a file where the test wants to kill somebody meanwhile."""
    die("working")
    gate = os.environ.get("GATE", "")
    if gate:
        await eventually(Path(gate).exists, "the test opens the gate", 60)
    return f"{mention.text} done"
