"""Runs scenarios on a server, reads their logs back, and judges what was found."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import msgspec
import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

from benchmarks.faults.cast import Cast
from benchmarks.faults.scenario import Scenario, Truth
from threadbus.bus import Bus, connect
from threadbus.replay import Finding, FindingKind, TimelineFold
from threadbus.replay.findings import Analyser, Analysis, load_settings

QUICKENED: Final = ("U3.floor_s=2.5", "U4.quiet_s=2.5")
"""Settings for all runs, faulty and clean: the minutes that are allowed last seconds here."""

_AT_ONCE: Final = 8
_DEADLINE_S: Final = 120.0


class Outcome(msgspec.Struct, frozen=True):
    """What became of one scenario."""

    scenario: Scenario
    truth: Truth | None
    analysis: Analysis

    @property
    def hits(self) -> list[Finding]:
        """What was found by a detector that is right."""
        return [one for one in self.analysis.findings if one.detector in self.scenario.detectors]

    @property
    def is_found(self) -> bool:
        """Whether the fault was found."""
        return bool(self.hits)

    @property
    def is_sure(self) -> bool:
        """Whether it was found as more than a hint."""
        return any(one.kind is not FindingKind.HINT for one in self.hits)

    @property
    def has_agent(self) -> bool:
        """Whether a right finding names the right agent."""
        truth = self.truth
        if truth is None:
            return False
        return any(not truth.agents or one.agent in truth.agents for one in self.hits)

    @property
    def has_step(self) -> bool:
        """Whether a right finding is about the right entry."""
        truth = self.truth
        return truth is not None and any(one.seq in truth.steps for one in self.hits)

    @property
    def rank(self) -> int | None:
        """The place of the injected entry among the suspects, from 1."""
        steps = () if self.truth is None else self.truth.steps
        for place, suspect in enumerate(self.analysis.suspects, 1):
            if suspect.seq in steps:
                return place
        return None

    def counted(self, kind: FindingKind) -> Counter[str]:
        """Return how often each detector found something of a kind."""
        return Counter(one.detector for one in self.analysis.findings if one.kind is kind)


async def run(url: str, scenarios: Sequence[Scenario]) -> list[Outcome]:
    """Run *scenarios*, several at once, each in a super-task of its own.

    Cancellation: what runs is left as it is.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    client: Client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
    try:
        async with connect(url, name="user") as bus:
            stream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]

            async def one(scenario: Scenario) -> Outcome:
                async with gate, asyncio.timeout(_DEADLINE_S):
                    return await _play(scenario, bus, stream, url)

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(each), name=each.name) for each in scenarios]
            return [task.result() for task in tasks]
    finally:
        await client.close()


async def _play(scenario: Scenario, bus: Bus, stream: JetStreamContext, url: str) -> Outcome:
    cast = Cast(bus, stream, url)
    truth = await scenario.script(cast)
    fold, analyser = TimelineFold(), Analyser(load_settings(overrides=QUICKENED))
    async with aclosing(bus.read(cast.task)) as entries:
        async for entry in entries:
            fold.apply(entry)
            analyser.apply(entry)
    now = time.time_ns() if scenario.is_open else None
    return Outcome(scenario, truth, analyser.finish(fold.timeline, now))
