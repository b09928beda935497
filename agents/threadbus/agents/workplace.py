"""Where turns are taken: what all turns of one running agent have in common."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from threadbus.agents.agent import Agent
from threadbus.agents.model import Model
from threadbus.agents.throttling import Intake
from threadbus.bus import Bus


@dataclass(kw_only=True)
class Workplace:
    """What all turns of one running agent have in common."""

    agent: Agent
    bus: Bus
    model: Model | None
    replica: str
    shared: bool
    """Whether other processes take mentions from the same inbox."""
    on_long: Callable[[], None]
    """Called when a handler has run for more than a moment."""
    since: int = 0
    """When mentions began to be taken; what is older may have been begun by another process."""
    abandoned: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    """Handlers that did not end when they were cancelled."""
    intake: Intake = field(init=False)
    """Says which mentions are answered."""

    def __post_init__(self) -> None:
        self.intake = Intake(self.bus)

    def pause(self, attempt: int) -> timedelta:
        """Return how long to wait after a failed attempt, by its number from 1."""
        limits = self.agent.limits
        doubled = limits.first_retry * float(2 ** min(attempt - 1, 30))
        return min(limits.longest_retry, doubled) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
