"""A team on two hosts: one agent leads on the one, the other works on the other."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.eventually import eventually
from threadbus.agents import Agent, Mention

lead = Agent("lead", description="Has three pieces of work done far away.")
far = Agent("far", description="Works on the other host.")


@lead.on_mention
async def have_done(mention: Mention) -> str:
    """Give out one piece after the other and return what came back."""
    done: list[str] = []
    for number in range(1, 4):
        result = await mention.assign("far", f"piece {number}", title=f"Piece {number}")
        done.append(result.text)
    return f"{mention.text}: {', '.join(done)}"


@far.on_mention
async def work(mention: Mention) -> str:
    """Wait in the middle of the second piece for as long as the test wants."""
    folder = Path(os.environ["HOSTS_FOLDER"])
    await mention.progress("at work")
    gate = folder / "gate"
    if mention.text == "piece 2" and gate.exists():
        (folder / "in the middle").touch()
        await eventually(lambda: not gate.exists(), "the gate to be opened")
        (folder / "handing over").touch()
    return f"{mention.text} is done"
