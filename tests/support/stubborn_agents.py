"""Agents that are hard to stop; run as processes by the tests of a stop."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

from threadbus.agents import Agent, AgentLimits, Mention, from_callable

FOLDER = Path(os.environ.get("STUBBORN_FOLDER", "."))

patient = Agent("patient")
deaf = Agent("deaf")
leaving = Agent("leaving", limits=AgentLimits(max_attempts=1))
frozen = Agent("frozen")


def _mark(name: str) -> None:
    (FOLDER / name).touch()


@patient.on_mention
async def finish(mention: Mention) -> str:
    """Take a moment that a stop has to wait for; the first process never ends."""
    _mark("patient")
    if mention.text == "short":
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.Event().wait()
    elif mention.attempt == 1:
        await asyncio.Event().wait()
    return f"done at attempt {mention.attempt}"


@deaf.on_mention
async def ignore(mention: Mention) -> str:
    """Never end, whoever asks."""
    _mark("deaf")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@leaving.on_mention
async def leave(mention: Mention) -> str:
    """Try to end the process."""
    if mention.text == "exit":
        raise SystemExit(7)
    return f"still here as {os.getpid()}"


@frozen.on_mention
async def block(mention: Mention) -> str:
    """Block the event loop for longer than a lease."""
    if mention.text == "block":
        with (FOLDER / "blocked").open("a") as file:
            file.write("once\n")
        threading.Event().wait(3)
    return "thawed"


def _block_for_ever(task: str) -> str:
    _mark("blocking")
    threading.Event().wait()
    return task


blocking = from_callable(_block_for_ever, "blocking")
