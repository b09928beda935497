"""A remote A2A agent as a participant of the bus, for as long as it is to be reached.

It is an agent like any other: registered, living while its card can be fetched, woken by mentions,
leased while it works. When it goes away its presence goes, mentions wait in its inbox, and what was
being worked on is recorded as failed and tried again once it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final

import msgspec
from a2a.types import a2a_pb2 as pb

from threadbus.agents import Agent, AgentLimits, AgentRunner, Mention, Reply
from threadbus.bus import Bus, BusSettings, SteadyLog, connect
from threadbus.gateways.a2a.receiving import Bells
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.a2a.talking import Talk
from threadbus.gateways.errors import RemoteError
from threadbus.schemas import (
    MAX_DISPLAY_NAME_CHARS,
    MAX_SKILL_ENTRIES,
    MAX_SKILLS,
    MAX_WORD_CHARS,
    AgentName,
    Skill,
    clean_text,
)

_LOOK_EVERY_S: Final = 10.0
_MISSES: Final = 3
# A record of the registry has at most 64 KiB: of these, what is left by the rest goes to skills.
_SKILLS_BYTES: Final = 32 * 1024
_DESCRIPTION_CHARS: Final = 4_000
_SKILL_NAME_CHARS: Final = 200
_SKILL_CHARS: Final = 2_000
_TAGS: Final = 16
_TAG_CHARS: Final = 64
_EXAMPLES: Final = 8
_EXAMPLE_CHARS: Final = 300
_MODE_CHARS: Final = 100
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
    """Return the agent of the bus that stands for a remote one.

    What it says of itself is cut to what the registry has room for.
    """
    agent = Agent(
        name,
        display_name=clean_text(card.name, MAX_DISPLAY_NAME_CHARS),
        description=clean_text(card.description, _DESCRIPTION_CHARS),
        version=clean_text(card.version, MAX_WORD_CHARS) or "0",
        skills=_skills(name, card.skills),
        input_modes=_modes(card.default_input_modes),
        output_modes=_modes(card.default_output_modes),
        labels={"a2a.url": clean_text(remote.url, MAX_WORD_CHARS)},
        limits=AgentLimits(concurrency=16, turn_timeout=timedelta(days=2)),
    )

    @agent.on_mention
    async def handle(mention: Mention) -> Reply:
        return await Talk(mention, remote, bells).run()

    return agent


def _skills(name: AgentName, skills: Sequence[pb.AgentSkill]) -> list[Skill]:
    kept: list[Skill] = []
    left = _SKILLS_BYTES
    for one in skills[:MAX_SKILLS]:
        skill = _skill(one)
        left -= len(msgspec.json.encode(skill))
        if left < 0:
            break
        kept.append(skill)
    if len(kept) < len(skills):
        _log.warning("not all skills have room", agent=name, kept=len(kept), of=len(skills))
    return kept


def _skill(skill: pb.AgentSkill) -> Skill:
    return Skill(
        id=clean_text(skill.id, MAX_WORD_CHARS),
        name=clean_text(skill.name, _SKILL_NAME_CHARS),
        description=clean_text(skill.description, _SKILL_CHARS),
        tags=tuple(clean_text(tag, _TAG_CHARS) for tag in skill.tags[:_TAGS]),
        examples=tuple(clean_text(text, _EXAMPLE_CHARS) for text in skill.examples[:_EXAMPLES]),
    )


def _modes(modes: Sequence[str]) -> tuple[str, ...]:
    """Return the media types of a card that can be some."""
    fit = (mode for mode in modes if 0 < len(mode) <= _MODE_CHARS and mode.isascii())
    usable = [mode for mode in fit if mode.isprintable()]
    return tuple(usable[:MAX_SKILL_ENTRIES]) or ("text/plain",)
