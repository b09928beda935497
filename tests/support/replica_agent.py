"""An agent of which several processes run; each message goes to a file in the order of handling."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.eventually import eventually
from threadbus.agents import Agent, AgentLimits, Mention

FOLDER = Path(os.environ.get("REPLICA_FOLDER", "."))

agent = Agent("many", limits=AgentLimits(concurrency=3, max_attempts=20))


@agent.on_mention
async def handle(mention: Mention) -> str:
    """Say who handled it; slow where the message says so, until a file is there."""
    if mention.text == "wait":
        (FOLDER / f"waiting-{os.getpid()}").touch()
        await eventually((FOLDER / "go").exists, "a file says to go on")
    return f"{mention.text} by {os.getpid()}"
