"""A remote A2A agent as a participant of the bus, for as long as it is to be reached.

It is an agent like any other: registered, living while its card can be fetched, woken by mentions,
leased while it works. When it goes away its presence goes, mentions wait in its inbox, and what was
being worked on is recorded as failed and tried again once it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Final

from a2a.types import a2a_pb2 as pb

from threadbus.agents import Agent, AgentLimits, AgentRunner, Mention, Reply
from threadbus.bus import Bus, BusSettings, SteadyLog, connect
from threadbus.gateways.a2a.receiving import Bells
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.a2a.talking import Talk
from threadbus.gateways.errors import RemoteError
from threadbus.schemas import (
    MAX_LABELS,
    MAX_NOTE_CHARS,
    MAX_SKILLS,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
    AgentName,
    Skill,
    clean_text,
)

_LOOK_EVERY_S: Final = 10.0
_MISSES: Final = 3
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_log: Final = SteadyLog("threadbus.gateways.a2a")


async def join(
    settings: BusSettings,
    remote: RemoteAgent,
    name: AgentName,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None] | None = None,
    look_every_s: float = _LOOK_EVERY_S,
    bells: Bells | None = None,
) -> None:
    """Let a remote agent take part until *stop*; whenever it goes away, wait until it is back.

    Args:
        settings: where the bus is.
        remote: the remote agent.
        name: its name on the bus.
        stop: ends it, in order.
        on_ready: called each time it takes mentions.
        look_every_s: how often its card is fetched, in seconds.
        bells: where it may push to; without them nothing is pushed.

    Raises:
        ConnectError: there is no usable server.
        AgentNameTakenError: somebody else has the name.
        MissingExtraError: it speaks only gRPC, and that is not installed.

    Cancellation: aborts what runs; its mentions go back at once.
    """
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(settings, name=name))
        stack.push_async_callback(remote.aclose)
        pause = _FIRST_PAUSE_S
        while not stop.is_set():
            try:
                card = await remote.card()
            except RemoteError as error:
                _log.warning("not to be reached, trying on", agent=name, reason=str(error))
                await _rest(stop, pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            await _take_part(
                bus, remote, _agent(name, card, remote, bells), stop, on_ready, look_every_s
            )


async def _take_part(
    bus: Bus,
    remote: RemoteAgent,
    agent: Agent,
    stop: asyncio.Event,
    on_ready: Callable[[], None] | None,
    look_every_s: float,
) -> None:
    """Run the agent until the stop, or until the remote one is gone."""
    runner = AgentRunner(agent, bus)
    work = asyncio.create_task(runner.run(), name=f"threadbus.a2a[{agent.name}]")
    ready = asyncio.create_task(runner.ready.wait(), name="threadbus.a2a.ready")
    misses = 0
    try:
        await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and on_ready is not None:
            on_ready()
        while not stop.is_set() and not work.done() and misses < _MISSES:
            await _rest(stop, look_every_s)
            try:
                await remote.card()
                misses = 0
            except RemoteError as error:
                misses += 1
                _log.warning("does not answer", agent=agent.name, misses=misses, reason=str(error))
        if stop.is_set():
            runner.stop()
            await asyncio.wait({work})
    finally:
        ready.cancel()
        # Gone: what it was working on goes back, and its presence ends.
        work.cancel()
        await asyncio.wait({work})
    if not work.cancelled():
        work.result()


async def _rest(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _agent(name: AgentName, card: pb.AgentCard, remote: RemoteAgent, bells: Bells | None) -> Agent:
    """Return the agent of the bus that stands for a remote one."""
    agent = Agent(
        name,
        display_name=clean_text(card.name, 120),
        description=clean_text(card.description, MAX_NOTE_CHARS),
        version=clean_text(card.version, MAX_WORD_CHARS) or "0",
        skills=[_skill(skill) for skill in card.skills[:MAX_SKILLS]],
        input_modes=_words(card.default_input_modes) or ("text/plain",),
        output_modes=_words(card.default_output_modes) or ("text/plain",),
        labels={"a2a.url": clean_text(remote.url, MAX_WORD_CHARS)},
        limits=AgentLimits(concurrency=16, turn_timeout=timedelta(days=2)),
    )

    @agent.on_mention
    async def handle(mention: Mention) -> Reply:
        return await Talk(mention, remote, bells).run()

    return agent


def _skill(skill: pb.AgentSkill) -> Skill:
    return Skill(
        id=clean_text(skill.id, MAX_WORD_CHARS),
        name=clean_text(skill.name, MAX_TITLE_CHARS),
        description=clean_text(skill.description, MAX_NOTE_CHARS),
        tags=_words(skill.tags),
        examples=tuple(clean_text(text, MAX_NOTE_CHARS) for text in skill.examples[:MAX_LABELS]),
    )


def _words(values: Any) -> tuple[str, ...]:
    return tuple(clean_text(str(value), MAX_WORD_CHARS) for value in list(values)[:MAX_LABELS])
