"""Who waits for whom: the inboxes as far as these credentials may look into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from threadbus.bus import Bus, BusError, Health, LivingAgent, Unseen

MAX_ASKED: Final = 200
"""Agents whose oldest mention is looked at, one request each."""


@dataclass(frozen=True)
class Waiting:
    """Mentions that an agent has not settled."""

    agent: str
    count: int
    oldest_at: int | None
    """When the oldest was put into the inbox, in nanoseconds since the epoch."""
    subject: str
    """The subject of the oldest; empty where it was not looked at."""


class WaitingFacts(NamedTuple):
    """What waits for everybody."""

    agents: tuple[Waiting, ...]
    """Registered agents for which something waits."""
    unregistered: Mapping[str, int]
    """Names that nobody registered, people among them, and how much waits for each."""
    unseen: tuple[Unseen, ...]


def inbox_streams(health: Health, agents: Sequence[LivingAgent]) -> list[str]:
    """Return the streams that have inboxes: what is filled from others, and what records name."""
    filled = {stream.name for stream in health.streams if stream.sources}
    return sorted(filled | {agent.record.inbox_stream for agent in agents})


async def look_at_waiting(
    bus: Bus, streams: Sequence[str], agents: Sequence[LivingAgent]
) -> WaitingFacts:
    """Look at what waits in *streams*, and at the oldest mention of each registered agent.

    What was said to a person is no question to an agent: it is told apart.
    """
    unseen: list[Unseen] = []
    counts: dict[str, dict[str, int]] = {}
    for stream in streams:
        try:
            counts[stream] = dict(await bus.pending_mentions(stream))
        except BusError as error:
            unseen.append(Unseen.because(f"what waits on {stream}", error))
    found: list[Waiting] = []
    may_look = True
    for agent in agents:
        stream = agent.record.inbox_stream
        count = counts.get(stream, {}).pop(agent.name, 0)
        if not count:
            continue
        oldest = None
        if may_look and len(found) < MAX_ASKED:
            try:
                oldest = await bus.oldest_mention(agent.name, stream)
            except BusError as error:
                # The next one would be refused as well.
                may_look = False
                unseen.append(Unseen.because("the oldest mention of each agent", error))
        found.append(
            Waiting(
                agent.name,
                count,
                None if oldest is None else oldest.stored_at,
                "" if oldest is None else oldest.subject,
            )
        )
    left: dict[str, int] = {}
    for series in counts.values():
        for name, count in series.items():
            left[name] = left.get(name, 0) + count
    return WaitingFacts(tuple(found), left, tuple(unseen))
