"""What can go wrong in an evaluation.

AgentError
└── EvaluationError             the root of this package
    ├── QuestionsError          a file of questions that cannot be used
    └── RecordsError            a file of results that cannot be gone on with
"""

from __future__ import annotations

from threadbus.agents.errors import AgentError
from threadbus.schemas import shorten


class EvaluationError(AgentError):
    """An evaluation cannot go on."""


class QuestionsError(EvaluationError, ValueError):
    """A file of questions cannot be used."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file = file
        self.line = line
        """From 1; 0 where it is the whole file."""
        self.reason = reason

    def __str__(self) -> str:
        place = f", line {self.line}" if self.line else ""
        return f"{shorten(self.file, 200)}{place}: {self.reason}"


class RecordsError(EvaluationError):
    """A file of results cannot be gone on with."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return f"{shorten(self.file, 200)}: {self.reason}"
