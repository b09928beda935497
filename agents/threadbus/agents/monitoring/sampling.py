"""One look at the server: the gauges that are not in the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from threadbus.agents.monitoring.counts import Labels
from threadbus.agents.monitoring.waiting import inbox_streams, look_at_waiting
from threadbus.bus import Bus, BusError, Health, LivingAgent, StorageFacts, Unseen
from threadbus.schemas import Presence, partition_start

_NS: Final = 1_000_000_000

AgentLabel: TypeAlias = Callable[[str], str]
"""Gives the bounded label of an agent."""


class Sample(msgspec.Struct):
    """What was seen at one moment."""

    gauges: dict[str, dict[Labels, float]] = {}
    """By metric and the values of its labels."""
    unseen: list[Unseen] = []

    def put(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self.gauges.setdefault(name, {})[labels] = value

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add to a gauge: what has no label of its own is together under ``other``."""
        series = self.gauges.setdefault(name, {})
        series[labels] = series.get(labels, 0) + value

    def least(self, name: str, value: float, *labels: str) -> None:
        """Keep the smallest of several."""
        series = self.gauges.setdefault(name, {})
        series[labels] = min(series.get(labels, value), value)

    def most(self, name: str, value: float, *labels: str) -> None:
        """Keep the largest of several."""
        series = self.gauges.setdefault(name, {})
        series[labels] = max(series.get(labels, value), value)


async def take_sample(bus: Bus, label: AgentLabel) -> Sample:
    """Look at everything that these credentials may see.

    Raises:
        BusError: the server does not tell of its streams at all.

    Cancellation: safe.
    """
    sample = Sample()
    facts = await bus.facts()
    sample.put("server_info", 1, facts.name, facts.version)
    before = time.time_ns()
    storage = await bus.storage()
    after = time.time_ns()
    if storage.server_time:
        # The answer was made somewhere between the two: the least that it can be off.
        skew = max(0, before - storage.server_time) - max(0, storage.server_time - after)
        sample.put("clock_skew_seconds", skew / _NS)
    health = await bus.operations.health()
    sample.unseen += health.unseen
    _streams(sample, storage, health)
    ends = [await bus.operations.last_seq(n) - partition_start(n) for n in range(bus.partitions)]
    sample.put("log_sequence", sum(ends))
    try:
        agents = list(await bus.registry.agents())
        beats = list(await bus.registry.presence())
    except BusError as error:
        sample.unseen.append(Unseen.because("the registry", error))
    else:
        _agents(sample, agents, beats, label)
        await _waiting(sample, bus, health, agents, storage.server_time or after, label)
        known = {agent.name for agent in agents}
        left = sum(bool(one.agent) and one.agent not in known for one in health.consumers)
        sample.put("inboxes_left", left)
    for what in sample.unseen:
        sample.put("unseen", 1, what.what)
    return sample


def _streams(sample: Sample, storage: StorageFacts, health: Health) -> None:
    for facts in storage.streams:
        if not facts.exists:
            continue
        sample.put("stream_messages", facts.messages, facts.name)
        sample.put("stream_bytes", facts.bytes, facts.name)
        sample.put("stream_differences", len(facts.differences), facts.name)
        sample.put("consumers", facts.consumers, facts.name)
    for stream in health.streams:
        sample.put("stream_leader", bool(stream.leader), stream.name)
        sample.put("stream_copies", stream.copies, stream.name)
        current = sum(one.current and not one.offline for one in stream.replicas)
        sample.put("stream_copies_current", current + bool(stream.leader), stream.name)
        if stream.max_bytes is not None:
            sample.put("stream_limit_bytes", stream.max_bytes, stream.name)
        for source in stream.sources:
            sample.most("source_lag", source.lag, stream.name, source.stream)
    if health.account is not None:
        sample.put("storage_bytes", health.account.file_bytes)
        if health.account.max_file_bytes is not None:
            sample.put("storage_limit_bytes", health.account.max_file_bytes)
    for expiry in health.expiries:
        sample.put("expiry_timestamp_seconds", expiry.at / _NS, expiry.what)


def _agents(
    sample: Sample, agents: Sequence[LivingAgent], beats: Sequence[Presence], label: AgentLabel
) -> None:
    living = sum(agent.is_living for agent in agents)
    sample.put("agents", living, "living")
    sample.put("agents", len(agents) - living, "gone")
    for agent in agents:
        # Of several together: whether all of them live.
        sample.least("agent_living", agent.is_living, label(agent.name))
        states = Counter(str(beat.state) for beat in agent.instances)
        for state, count in states.items():
            sample.add("agent_instances", count, label(agent.name), state)
    holders = {(agent.name, agent.record.holder) for agent in agents}
    strays = sum((beat.agent, beat.holder) not in holders for beat in beats)
    sample.put("heartbeats_unregistered", strays)


async def _waiting(
    sample: Sample,
    bus: Bus,
    health: Health,
    agents: Sequence[LivingAgent],
    now: int,
    label: AgentLabel,
) -> None:
    found = await look_at_waiting(bus, inbox_streams(health, agents), agents)
    sample.unseen += found.unseen
    for agent in agents:
        sample.add("mentions_waiting", 0, label(agent.name))
    for row in found.agents:
        sample.add("mentions_waiting", row.count, label(row.agent))
        if row.oldest_at is not None:
            age = max(0, now - row.oldest_at) / _NS
            sample.most("mention_oldest_seconds", age, label(row.agent))
    sample.put("mentions_unregistered", sum(found.unregistered.values()))
