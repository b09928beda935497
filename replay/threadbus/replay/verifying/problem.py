"""What a check of a log says."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from threadbus.schemas import AgentName, EventId, TaskId, ThreadId

FORMAT: Final = "threadbus.verify/1"
"""What ``format`` says in the JSON document; the number rises when a field changes meaning."""

MAX_KEPT: Final = 1_000
"""Problems that are kept; all are counted."""


class ProblemKind(StrEnum):
    """How bad it is."""

    VIOLATION = "violation"
    """The log is not what an honest one can be."""
    NOTE = "note"
    """It may be all right: a clock that is wrong, a part of a log, a type from a newer version."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is not as it should be."""

    kind: ProblemKind
    check: str
    """Which check found it: one word."""
    text: str
    """A sentence for a person, with the evidence in it."""
    seq: int = 0
    id: EventId | None = None
    type: str = ""
    sender: AgentName | None = None
    thread: ThreadId | None = None
    evidence: tuple[int, ...] = ()
    """Sequences of other entries that show it."""


class Report(msgspec.Struct, kw_only=True):
    """Everything that was found."""

    format: str = FORMAT
    task: TaskId | None = None
    entries: int = 0
    first_seq: int = 0
    last_seq: int = 0
    artifacts: int = 0
    """Contents that were fetched and held against their hashes."""
    artifacts_unchecked: int = 0
    """Contents that could not be looked at here: a file has none."""
    violations: int = 0
    notes: int = 0
    problems: list[Problem] = []
    """The first of them."""

    def add(self, problem: Problem) -> None:
        """Count a problem, and keep it if there is room."""
        if problem.kind is ProblemKind.VIOLATION:
            self.violations += 1
        else:
            self.notes += 1
        if len(self.problems) < MAX_KEPT:
            self.problems.append(problem)
