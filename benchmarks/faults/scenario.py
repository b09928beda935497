"""What a scenario is: a script, and for a fault the truth about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from benchmarks.faults.cast import Cast, Entry


class Truth(msgspec.Struct, frozen=True):
    """What was injected."""

    agents: frozenset[str]
    """Who is at fault, or either of several; empty where it is nobody that the log could name."""
    steps: tuple[int, ...]
    """The entry with which the fault begins; for what did not happen also the one it was due to."""


Script: TypeAlias = Callable[[Cast], Awaitable[Truth | None]]


class Scenario(msgspec.Struct, frozen=True):
    """One run."""

    name: str
    script: Script
    detectors: frozenset[str] = frozenset()
    """Any of which would be right; empty for a clean run."""
    is_slow: bool = False
    """Whether it takes seconds: processes, silence, deadlines."""
    is_open: bool = False
    """Whether the run is looked at while it goes on."""


FAULTS: list[Scenario] = []
CLEAN: list[Scenario] = []


def fault(
    detectors: str, *, is_slow: bool = False, is_open: bool = False
) -> Callable[[Script], Script]:
    """Register a script that injects a fault which any of these detectors should find."""

    def register(script: Script) -> Script:
        found = frozenset(detectors.split())
        FAULTS.append(Scenario(_name(script), script, found, is_slow=is_slow, is_open=is_open))
        return script

    return register


def clean(*, is_slow: bool = False) -> Callable[[Script], Script]:
    """Register a script in which nothing goes wrong."""

    def register(script: Script) -> Script:
        CLEAN.append(Scenario(_name(script), script, is_slow=is_slow))
        return script

    return register


def _name(script: Script) -> str:
    return getattr(script, "__name__", "scenario").replace("_", " ")


def at(agents: str, *entries: Entry | int) -> Truth:
    """Return the truth about a fault of these agents, separated by spaces, at these entries."""
    steps = tuple(entry if isinstance(entry, int) else entry.seq for entry in entries)
    return Truth(frozenset(agents.split()), steps)
