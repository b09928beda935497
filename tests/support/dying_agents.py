"""Agents that kill their own process at a chosen place of a turn, once; run by the crash tests.

``DIE_AT`` names the place and ``DIE_MARK`` a file that says it has happened. The places between
the steps of a turn are reached by replacing the step with one that dies before or after it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.bus import Delivery
from threadbus.bus.outgoing import Outgoing
from threadbus.schemas import AnswerSubmitted, Event, HandlingEnded, TaskClosed

PLACE = os.environ.get("DIE_AT", "")
MARK = Path(os.environ.get("DIE_MARK", "/nonexistent"))

agent = Agent("mortal", limits=AgentLimits(max_attempts=5))
helper = Agent("helper")


@agent.on_mention
async def handle(mention: Mention) -> str:
    """Do one of everything, and say other words each time that it is run."""
    die("received")
    again = f"{os.getpid()}"
    await mention.say(f"working as {again}")
    die("said")
    thread = await mention.open_thread(f"aside {again}", participants=["helper"])
    die("opened")
    asked = await mention.ask("helper", f"ask {again}", thread=thread)
    die("asked")
    done = await mention.assign("helper", "do", thread=thread)
    die("assigned")
    given = await mention.request_input("which?")
    die("given")
    await mention.save("notes.txt", mention.parts[0])
    die("saved")
    return f"{asked} {done.text} {given}"


@helper.on_mention
async def help_out(mention: Mention) -> str:
    """Answer at once."""
    return "helped"


def die(place: str) -> None:
    """End this process as a crash would, the first time that it comes here."""
    if place == PLACE and not MARK.exists():
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _around(owner: type, name: str, before: Callable[..., str], after: Callable[..., str]) -> None:
    step: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        die(before(*args))
        result = await step(self, *args, **named)
        die(after(*args))
        return result

    setattr(owner, name, wrapped)


def _place_of(word: str) -> Callable[..., str]:
    names: dict[type, str] = {
        AnswerSubmitted: "answer",
        TaskClosed: "close",
        HandlingEnded: "ended",
    }

    def place(event: Event, *_: object) -> str:
        return f"{word}-{names.get(event.data.__class__, '')}"

    return place


if PLACE:
    # Where each event is handed to the connection: an answer and its close go out together.
    _around(Outgoing, "send", _place_of("before"), _place_of("after"))
    _around(Delivery, "ack", lambda *_: "before-ack", lambda *_: "after-ack")
