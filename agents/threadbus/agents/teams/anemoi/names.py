"""Who is in the team, and the data parts by which its events say what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from threadbus.schemas import DataPart, Event, Parts

PLANNER: Final = "planner"
CRITIQUE: Final = "critique"
ANSWER: Final = "answer-finding"
WORKERS: Final[Mapping[str, str]] = {
    "web": "searches the web and reads pages",
    "document": "reads the files of the task and quotes them",
    "coding": "computes with Python over the files of the task",
}
"""Worker → what it is good for."""
VOTERS: Final = (CRITIQUE, ANSWER, *WORKERS)
EVERYBODY: Final = (PLANNER, *VOTERS)

RULES: Final = "anemoi.rules"
"""Data part with the rules of the thread."""
STEP: Final = "anemoi.step"
"""Data part of an assignment: ``plan`` and ``number``."""
JUDGE: Final = "anemoi.judge"
"""Data part of a message to the critique: ``result``."""
CANDIDATE: Final = "anemoi.candidate"
"""Data part of an assignment to the answer-finding agent: ``round``."""
SUBMIT: Final = "anemoi.submit"
"""Data part of the last assignment: ``proposal``."""


def named_data(parts: Parts, name: str) -> dict[str, object] | None:
    """Return the JSON object of the data part with this name."""
    for part in parts:
        if isinstance(part, DataPart) and part.name == name:
            data: object = part.data
            return cast("dict[str, object]", data) if isinstance(data, dict) else None
    return None


def data_of(event: Event, name: str) -> dict[str, object] | None:
    """Return the JSON object of an event's data part with this name."""
    parts: Parts = getattr(event.data, "parts", ())
    return named_data(parts, name)
