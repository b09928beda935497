"""The agent *many* of a later release: it knows a type of event that this release does not.

Each question is estimated in an event of that type, checked by another agent, and answered.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import msgspec

from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.schemas import DATA_TYPES, EventClass, EventData, codec

TYPE = "estimate.given"


class EstimateGiven(EventData, frozen=True, kw_only=True):
    """Say how long something will take."""

    TYPE: ClassVar = TYPE
    CLASS: ClassVar = EventClass.WORK

    hours: int


def know_estimates() -> None:
    """Be the later release."""
    DATA_TYPES[TYPE] = EstimateGiven
    decoders: dict[str, msgspec.json.Decoder[EventData]] = vars(codec)["_DECODERS"]
    decoders[TYPE] = msgspec.json.Decoder(EstimateGiven)


know_estimates()
agent = Agent("many", limits=AgentLimits(concurrency=3, max_attempts=20))


@agent.on_mention
async def handle(mention: Mention) -> str:
    """Estimate, have it checked, answer."""
    # Not among the types of this release, which is the point of it.
    await mention.append(cast("Any", EstimateGiven(hours=2)))
    checked = await mention.ask("checker", mention.text)
    return f"{mention.text}, {checked}, by a later release"
