"""How far an agent is: told at once to whoever asks, also while it works."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from threadbus.agents.mention import Mention


@dataclass
class _Job:
    mention: Mention
    what: str
    since: float


_jobs: Final[dict[str, _Job]] = {}
"""What this process works on; an agent is a process of its own."""


@contextmanager
def at_work(mention: Mention, what: str) -> Generator[None]:
    """Say that this process works on *what* while the block runs."""
    key = f"{mention.agent}/{mention.event.id}"
    _jobs[key] = _Job(mention, what, time.monotonic())
    try:
        yield
    finally:
        del _jobs[key]


async def how_far(mention: Mention) -> str:
    """Answer a quick question: what is being worked on, for how long, and its last progress."""
    now = time.monotonic()
    lines = [
        f"at work on {job.what!r} for {now - job.since:.0f} s"
        + (f": {job.mention.progress_note}" if job.mention.progress_note else "")
        for job in _jobs.values()
        if job.mention.agent == mention.agent and job.mention.task == mention.task
    ]
    elsewhere = sum(
        job.mention.agent == mention.agent and job.mention.task != mention.task
        for job in _jobs.values()
    )
    if elsewhere:
        lines.append(f"{elsewhere} other super-tasks are under way")
    return "; ".join(lines) or "idle"
