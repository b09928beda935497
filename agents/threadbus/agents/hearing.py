"""Observations that mention an agent: dead letters for its handler, if it has one."""

from __future__ import annotations

import asyncio

from threadbus.agents.agent import Agent
from threadbus.agents.handling import guarded, report
from threadbus.bus import Delivery
from threadbus.schemas import MentionDeadLettered


class Hearing:
    """Takes note of observations; agents may ignore those, so that no error storm starts."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._heard: set[Delivery] = set()

    async def take(self, delivery: Delivery) -> None:
        """Call the handler of dead letters, and acknowledge.

        Cancellation: the handler is cancelled, and the dead letter comes again.
        """
        handler = self._agent.dead_letter_handler
        if handler is None or not isinstance(delivery.event.data, MentionDeadLettered):
            await delivery.ack()
            return
        self._heard.add(delivery)
        try:
            async with asyncio.timeout(self._agent.limits.turn_timeout.total_seconds()):
                await guarded(handler, delivery.recorded)
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Exception as error:
            report("a dead-letter handler failed", error, agent=self._agent.name)
        finally:
            self._heard.discard(delivery)
        await delivery.ack()

    async def extend(self) -> None:
        """Extend the leases."""
        for delivery in list(self._heard):
            await delivery.in_progress()
